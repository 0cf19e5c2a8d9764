# `cmake --install`: headers, library, programs, and a package that find_package(kolo CONFIG) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
