# Libraries for formats of data files that kolo can do without.

# KOLO_IMAGES: what decodes images, for kolo::data::ImageFolder and `kolo data`; empty if a part is missing.
find_package(PNG)
find_path(KOLO_TURBOJPEG_INCLUDE turbojpeg.h DOC "libjpeg-turbo's header")
find_library(KOLO_TURBOJPEG_LIBRARY turbojpeg DOC "libjpeg-turbo's library")
set(KOLO_IMAGES "")
if(PNG_FOUND AND KOLO_TURBOJPEG_INCLUDE AND KOLO_TURBOJPEG_LIBRARY)
  add_library(kolo_turbojpeg INTERFACE)
  target_include_directories(kolo_turbojpeg SYSTEM INTERFACE "${KOLO_TURBOJPEG_INCLUDE}")
  target_link_libraries(kolo_turbojpeg INTERFACE "${KOLO_TURBOJPEG_LIBRARY}")
  set(KOLO_IMAGES kolo_turbojpeg PNG::PNG)
else()
  message(STATUS "no libjpeg-turbo or no libpng: kolo will not read images")
endif()

# KOLO_ZIP: what reads archives, for `kolo data`; empty if it is missing.
find_package(PkgConfig)
if(PkgConfig_FOUND)
  pkg_check_modules(libzip IMPORTED_TARGET libzip)
endif()
set(KOLO_ZIP "")
if(libzip_FOUND)
  set(KOLO_ZIP PkgConfig::libzip)
else()
  message(STATUS "no libzip: `kolo data` will not read .npz files")
endif()
