# find_package(coir): coir::coir is the static library, coir::shared the shared one.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include("${CMAKE_CURRENT_LIST_DIR}/coir-targets.cmake")
