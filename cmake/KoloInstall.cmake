# `cmake --install`: headers, library, programs, and a package for find_package(kolo CONFIG).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The package of Debian that has a library, "" where none has.
function(kolo_debian_package library result)
  file(REAL_PATH "${library}" path)
  string(REGEX REPLACE "^/usr" "" older "${path}")  # /lib is a link to /usr/lib, and some packages name it
  set(package "")
  foreach(name "${path}" "${older}")
    execute_process(COMMAND dpkg-query --search "${name}" OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE code)
    if(code EQUAL 0)
      string(REGEX MATCH "^[^:,]+" package "${found}")
    endif()
  endforeach()
  set(${result} "${package}" PARENT_SCOPE)
endfunction()

# Installed programs find libkolo beside them, and LibTorch, MPI, NCCL and CUDA where they were at the build.
# (CMake leaves out of the link path what lies in the source folder, as scripts/setup's LibTorch does.)
set(kolo_torch_rpath "")
set(kolo_library_rpath "")
if(KOLO_TORCH_OPS)
  get_filename_component(kolo_torch_rpath "${LibTorch_CPU_LIBRARY}" DIRECTORY)
  list(APPEND kolo_library_rpath "${kolo_torch_rpath}")
endif()
if(KOLO_HAS_CUDA)
  foreach(library "${CUDA_cudart_LIBRARY}" "${NCCL_LIBRARY}")
    get_filename_component(folder "${library}" DIRECTORY)
    list(APPEND kolo_library_rpath "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES kolo_library_rpath)
endif()
set(kolo_rpath "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" ${kolo_library_rpath})
set_target_properties(kolo PROPERTIES INSTALL_RPATH "${kolo_library_rpath}" INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS kolo EXPORT koloTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/kolo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

foreach(program kolo_cli kolo_rank kolo_loader kolo_doctor kolo_bench kolo_checkpoint_tool kolo_data_tool kolo_trace_tool kolo_convert)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "${kolo_rpath}" INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -E create_symlink kolo
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/kolorun\")
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/kolorun\")")

# The modulefile, for Lmod and Environment Modules alike.
set(KOLO_MODULE_PREREQS "" CACHE STRING "Modules that kolo's own demands, as openmpi/5.0;cuda/13.0")
set(kolo_module_prereqs "")
foreach(module IN LISTS KOLO_MODULE_PREREQS)
  string(APPEND kolo_module_prereqs "prereq ${module}\n")
endforeach()
set(kolo_module_dir ${CMAKE_INSTALL_DATADIR}/modulefiles/kolo)
file(RELATIVE_PATH kolo_module_to_prefix "/prefix/${kolo_module_dir}/version" "/prefix")
configure_file(cmake/modulefile.in "${CMAKE_BINARY_DIR}/modulefile" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/modulefile" DESTINATION ${kolo_module_dir} RENAME ${PROJECT_VERSION})

# pkg-config kolo, for programs compiled by mpicxx. LibTorch has no file of its own for it.
file(RELATIVE_PATH kolo_pc_to_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
set(kolo_pc_cflags "")
set(kolo_pc_libs "")
if(KOLO_TORCH_OPS)
  set(kolo_pc_cflags " -isystem ${LibTorch_INCLUDE_DIR} -isystem ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include")
  set(kolo_pc_libs " -L${kolo_torch_rpath} -Wl,-rpath,${kolo_torch_rpath} -ltorch_cpu -lc10")
endif()
configure_file(cmake/kolo.pc.in "${CMAKE_BINARY_DIR}/kolo.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/kolo.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET kolo_manuals)
  install(DIRECTORY "${CMAKE_BINARY_DIR}/share/man/" DESTINATION ${CMAKE_INSTALL_MANDIR})
  file(WRITE "${CMAKE_BINARY_DIR}/kolorun.1" ".so man1/kolo-run.1\n")
  install(FILES "${CMAKE_BINARY_DIR}/kolorun.1" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  # bash finds the completion of a command by its name.
  foreach(name kolo kolorun)
    install(FILES "${CMAKE_BINARY_DIR}/share/bash-completion/completions/kolo"
      DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${name})
  endforeach()
endif()

install(FILES LICENSE packaging/debian/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(FILES slurm/job.sh slurm/site.env slurm/ml.sbatch slurm/gpu2.sbatch slurm/cpu.sbatch slurm/array.sbatch
  DESTINATION ${CMAKE_INSTALL_DATADIR}/kolo/slurm)
install(PROGRAMS slurm/interactive.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/kolo/slurm)

set(kolo_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kolo)
install(EXPORT koloTargets NAMESPACE kolo:: DESTINATION ${kolo_cmake_dir})
configure_package_config_file(cmake/koloConfig.cmake.in "${CMAKE_BINARY_DIR}/koloConfig.cmake"
  INSTALL_DESTINATION ${kolo_cmake_dir})
write_basic_package_version_file("${CMAKE_BINARY_DIR}/koloConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/koloConfig.cmake" "${CMAKE_BINARY_DIR}/koloConfigVersion.cmake"
  cmake/FindLibTorch.cmake DESTINATION ${kolo_cmake_dir})

# `cpack` makes kolo-VERSION-Linux-ARCH.tar.gz, which may be unpacked anywhere, and a package for Debian. What LibTorch and
# MPI they were built with they expect at the same place.
set(CPACK_GENERATOR "TGZ;DEB")
set(CPACK_PACKAGE_VENDOR "kolo")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_CONTACT "the authors of kolo")
set(CPACK_PACKAGE_FILE_NAME "kolo-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX "/")
set(CPACK_INCLUDE_TOPLEVEL_DIRECTORY ON)
set(CPACK_DEB_COMPONENT_INSTALL OFF)
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/KoloPackage.cmake")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "")
get_target_property(kolo_hwy_configurations hwy::hwy IMPORTED_CONFIGURATIONS)
list(GET kolo_hwy_configurations 0 kolo_hwy_configuration)
get_target_property(kolo_hwy_library hwy::hwy IMPORTED_LOCATION_${kolo_hwy_configuration})
set(kolo_libraries ${Boost_PROGRAM_OPTIONS_LIBRARY_RELEASE} ${HDF5_C_LIBRARY_hdf5} ${ZLIB_LIBRARIES} "${kolo_hwy_library}")
if(KOLO_ZIP)
  list(APPEND kolo_libraries ${libzip_LINK_LIBRARIES})
endif()
if(KOLO_IMAGES)
  list(APPEND kolo_libraries "${KOLO_TURBOJPEG_LIBRARY}" "${PNG_LIBRARY_RELEASE}")
endif()
if(KOLO_HAS_CUDA)
  list(APPEND kolo_libraries "${CUDA_cudart_LIBRARY}" "${NCCL_LIBRARY}")
endif()
foreach(library ${kolo_libraries})
  kolo_debian_package("${library}" package)
  if(package)
    list(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS "${package}")
  endif()
endforeach()
list(REMOVE_DUPLICATES CPACK_DEBIAN_PACKAGE_DEPENDS)
list(PREPEND CPACK_DEBIAN_PACKAGE_DEPENDS "libc6" "libgcc-s1" "libstdc++6")
list(JOIN CPACK_DEBIAN_PACKAGE_DEPENDS ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
include(CPack)
