# `cmake --install`: headers, library, programs, and a package for find_package(kolo CONFIG).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Installed programs find libkolo beside them, and LibTorch and MPI where they were at the build.
set(kolo_rpath "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set_target_properties(kolo PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS kolo EXPORT koloTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/kolo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

foreach(program kolo_cli kolo_rank kolo_doctor kolo_bench kolo_checkpoint_tool kolo_trace_tool kolo_convert)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "${kolo_rpath}" INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -E create_symlink kolo
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/kolorun\")")

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
