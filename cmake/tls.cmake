# libcoir-tls, which stands on the public functions of coir, and on OpenSSL. In the tree it is
# linked in two ways: coir_tls alone, for programs that are built on coir_internal or
# coir_simulated, and coir::tls, which brings coir::coir.
file(GLOB COIR_TLS_SOURCES CONFIGURE_DEPENDS src/tls/*.c)
add_library(coir_tls_compiled OBJECT ${COIR_TLS_SOURCES} src/base/options.c src/base/memory.c src/base/check.c src/sys/misuse.c)
target_include_directories(coir_tls_compiled PUBLIC include PRIVATE src)
target_compile_definitions(coir_tls_compiled PRIVATE _GNU_SOURCE)
target_compile_options(coir_tls_compiled PRIVATE -fvisibility=hidden -fno-semantic-interposition -fno-lto)
set_target_properties(coir_tls_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
target_link_libraries(coir_tls_compiled PRIVATE coir_flags OpenSSL::SSL)

coir_one_object(${PROJECT_BINARY_DIR}/coir-tls.o coir_tls_compiled)
add_library(coir_tls STATIC ${PROJECT_BINARY_DIR}/coir-tls.o)
add_library(coir_tls_shared SHARED $<TARGET_OBJECTS:coir_tls_compiled>)
foreach(library coir_tls coir_tls_shared)
    set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
    target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
    target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:coir_flags> OpenSSL::SSL OpenSSL::Crypto PUBLIC Threads::Threads)
endforeach()
add_library(coir_tls_internal STATIC EXCLUDE_FROM_ALL "$<FILTER:$<TARGET_OBJECTS:coir_tls_compiled>,EXCLUDE,/(base|sys)/>") # for tests that look inside
set_target_properties(coir_tls_internal PROPERTIES LINKER_LANGUAGE C)
target_link_libraries(coir_tls_internal PUBLIC coir_internal OpenSSL::SSL OpenSSL::Crypto)
coir_shared_library(coir_tls_shared coir-tls)
set_target_properties(coir_tls PROPERTIES OUTPUT_NAME coir-tls EXPORT_NAME tls)
set_target_properties(coir_tls_shared PROPERTIES EXPORT_NAME tls_shared)
target_link_libraries(coir_tls INTERFACE $<INSTALL_INTERFACE:coir::coir>)
target_link_libraries(coir_tls_shared PUBLIC coir_shared)

add_library(coir_tls_and_coir INTERFACE)
target_link_libraries(coir_tls_and_coir INTERFACE coir_tls coir)
add_library(coir::tls ALIAS coir_tls_and_coir)
add_library(coir::tls_shared ALIAS coir_tls_shared)
