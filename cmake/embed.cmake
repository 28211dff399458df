# Makes a C source of a file's bytes. It defines `const unsigned char NAME[]` and
# `const size_t NAME_size`, which showcase/main.c declares.
# Usage: cmake -D FROM=page.html -D TO=page.c -D NAME=page -P embed.cmake
file(READ "${FROM}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}") # 16 bytes a line
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${TO}" "#include <stddef.h>\nextern const unsigned char ${NAME}[];\nextern const size_t ${NAME}_size;\n"
    "const unsigned char ${NAME}[] = {\n${bytes}\n};\nconst size_t ${NAME}_size = sizeof ${NAME};\n")
