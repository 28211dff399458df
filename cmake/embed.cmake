# Makes a C source of all files of a folder: the table `pages` that showcase/pages.h declares (or
# another name with the same shape), with types by extension, and entity tags by content. An
# index.html is also the folder itself.
# Usage: cmake -D FROM=folder -D TO=pages.c [-D TABLE=page] -P embed.cmake
if(NOT DEFINED TABLE)
    set(TABLE page)
endif()
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
file(GLOB files RELATIVE "${FROM}" "${FROM}/*")
set(arrays "")
set(rows "")
foreach(file ${files})
    string(MAKE_C_IDENTIFIER "${file}" name)
    string(REGEX REPLACE ".*[.]" "" extension "${file}")
    if(NOT DEFINED type_${extension})
        message(FATAL_ERROR "${FROM}/${file}: what is the type of .${extension}? Add it to embed.cmake")
    endif()
    file(READ "${FROM}/${file}" bytes HEX)
    file(SHA256 "${FROM}/${file}" tag)
    string(SUBSTRING "${tag}" 0 16 tag)
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}") # 16 bytes a line
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND arrays "static const unsigned char ${name}[] = {\n${bytes}\n};\n")
    string(REGEX REPLACE "^(.*)[.]html$" "\\1" path "/${file}") # pages are without their extension
    string(REGEX REPLACE "^/index$" "/" path "${path}")
    string(APPEND rows "    {\"${path}\", \"${type_${extension}}\", \"\\\"${tag}\\\"\", ${name}, sizeof ${name}},\n")
endforeach()
file(WRITE "${TO}" "#include \"pages.h\"\n\n${arrays}\nconst struct page ${TABLE}s[] = {\n${rows}};\n\nconst size_t ${TABLE}_count = sizeof ${TABLE}s / sizeof *${TABLE}s;\n")
