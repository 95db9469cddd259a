# Build rules shared by all rooms: flags, ccache, mold, and three functions.
#   baton_library(name [ALONE] SOURCES ... [DEPS ...])      a static library of one room
#   baton_executable(name [ALONE] SOURCES ... [DEPS ...])   ALONE: its files are compiled one by one (see BATON_UNITY)
#   baton_test(name SOURCES ... [DEPS ...])                 a doctest executable, run by `./check` and ctest
# Dev: debug information with light optimisation, so that numeric tests run fast. Release: what `./up` builds.
set(CMAKE_CXX_FLAGS_DEV "-O1 -g1 -D_GLIBCXX_ASSERTIONS")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_CONFIGURATION_TYPES "Dev;Release" CACHE STRING "" FORCE)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Dev CACHE STRING "Dev or Release" FORCE)
endif()

# Every preset and clone finds the objects of the others in the compiler cache, whose paths are relative to the build
# folder: ../../gateway, generated/schema. Each build folder has its own generated files, of the same names.
find_program(CCACHE ccache)
if(CCACHE)
  set(BATON_LAUNCHER env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${BATON_LAUNCHER})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Every floating-point contraction is written out: rows must be bit-equal whatever the compiler does.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
set(BATON_SANITIZE "" CACHE STRING "address,undefined or thread")
if(BATON_SANITIZE)
  # CAF 0.17 binds a null reference on argument-less spawn (init_fun_factory.hpp): not ours to fix.
  add_compile_options(-fsanitize=${BATON_SANITIZE} -fno-omit-frame-pointer)
  if(BATON_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=null -fno-sanitize-recover=undefined)
  endif()
  if(BATON_SANITIZE MATCHES "thread")
    # ThreadSanitizer knows no fences; Asio's queues lock as well. In all files alike: its functions are inline.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
  add_link_options(-fsanitize=${BATON_SANITIZE})
endif()

set(BATON_FUZZ OFF CACHE BOOL "libFuzzer's targets in place of their replay (tests/fuzz); needs clang")
if(BATON_FUZZ)
  # clang 14 cannot compile coroutines with -fsanitize=function ("a difference across sections").
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-recover=all -fno-sanitize=function)
endif()

# Units: the compiler reads several files of a target as one, and their includes once (decision 0057 has numbers). The
# costs: an edit of one file compiles its whole unit. Two files of a target cannot define the same name, even in unnamed
# namespaces. A missing #include goes unnoticed if the file before has it. The preset `fuzz` builds without units to find
# these. Files with properties of their own and generated files are compiled alone.
#
# CMake's own UNITY_BUILD does not serve here. Its units have absolute paths, so another clone finds no object without
# preprocessing. It counts files, and a file may have 20 lines or 500.
set(BATON_UNITY ON CACHE BOOL "compile the files of a target together, about BATON_UNITY_KIB of them at a time")
set(BATON_UNITY_KIB 148) # at a time; a unit then needs up to 2 GB of memory

function(baton_unity name)
  if(BATON_UNITY)
    # At the end of the folder, when all properties of its files are set.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL baton_replace_by_units [[${name}]])")
  endif()
endfunction()

# Sizes count in blocks of 4 KiB: a small edit seldom moves a file to another unit.
function(baton_blocks out path)
  file(SIZE "${path}" bytes)
  math(EXPR blocks "(${bytes} + 4095) / 4096")
  set(${out} ${blocks} PARENT_SCOPE)
endfunction()

function(baton_replace_by_units name)
  get_target_property(sources ${name} SOURCES)
  set(others "")
  set(files "")
  set(blocks_all 0)
  foreach(source ${sources})
    set(is_alone FALSE)
    foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS SKIP_UNITY_BUILD_INCLUSION)
      get_source_file_property(value "${source}" ${property})
      if(value)
        set(is_alone TRUE)
      endif()
    endforeach()
    get_filename_component(path "${source}" ABSOLUTE)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${path}" is_generated)
    if(is_alone OR is_generated OR NOT path MATCHES "\\.cpp$")
      list(APPEND others "${source}")
    else()
      list(APPEND files "${path}")
      baton_blocks(blocks "${path}")
      math(EXPR blocks_all "${blocks_all} + ${blocks}")
    endif()
  endforeach()
  list(LENGTH files count)
  if(count LESS 2)
    return()
  endif()

  # Units of about equal size: with 160 kB of files two of 80, not one of 150 and one of 10.
  math(EXPR units "(4 * ${blocks_all} + ${BATON_UNITY_KIB} - 1) / ${BATON_UNITY_KIB}")
  set(number 1)
  set(blocks_done 0)
  set(text "")
  foreach(path ${files})
    file(RELATIVE_PATH from_root "${CMAKE_SOURCE_DIR}" "${path}")
    string(APPEND text "#include \"${from_root}\"\n")
    baton_blocks(blocks "${path}")
    math(EXPR blocks_done "${blocks_done} + ${blocks}")
    math(EXPR bound "${blocks_all} * ${number} / ${units}")
    if(blocks_done GREATER_EQUAL bound)
      set(unit "${CMAKE_BINARY_DIR}/generated/units/${name}_${number}.cpp")
      file(CONFIGURE OUTPUT "${unit}" CONTENT "${text}" @ONLY) # leaves an equal file as it is
      list(APPEND others "${unit}")
      set(text "")
      math(EXPR number "${number} + 1")
    endif()
  endforeach()
  set_property(TARGET ${name} PROPERTY SOURCES ${others})
  # GCC takes a .cpp that is included for a header, and warns of classes there that hold what has no linkage.
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
endfunction()

# __FILE__ and debug information name files from the root: an object of the compiler cache fits each clone and preset.
# The compiler sees absolute paths, or relative ones behind ccache. A debugger finds the sources if it starts in the root.
cmake_path(RELATIVE_PATH CMAKE_SOURCE_DIR BASE_DIRECTORY "${CMAKE_BINARY_DIR}" OUTPUT_VARIABLE root_from_build)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=;-ffile-prefix-map=${root_from_build}/=;-ffile-prefix-map=${CMAKE_BINARY_DIR}=.>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>")

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)

add_library(baton_flags INTERFACE)
target_include_directories(baton_flags INTERFACE "${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/generated")
target_compile_options(baton_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-maybe-uninitialized;-Werror>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Clang has other names for GCC's warnings, and counts a change of sign among conversions.
  target_compile_options(baton_flags INTERFACE -Wno-unknown-warning-option -Wno-sign-conversion)
endif()
target_link_libraries(baton_flags INTERFACE fmt::fmt Threads::Threads)

function(baton_library name)
  cmake_parse_arguments(A "ALONE" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC baton_flags ${A_DEPS})
  if(NOT A_ALONE)
    baton_unity(${name})
  endif()
endfunction()

function(baton_executable name)
  cmake_parse_arguments(A "ALONE" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE baton_flags ${A_DEPS})
  if(NOT A_ALONE)
    baton_unity(${name})
  endif()
endfunction()

# One doctest main for all test executables.
function(baton_test name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT TARGET baton_test_main)
    find_package(doctest REQUIRED)
    add_library(baton_test_main STATIC "${CMAKE_SOURCE_DIR}/tests/support/main.cpp")
    target_link_libraries(baton_test_main PUBLIC baton_flags doctest::doctest)
    target_compile_definitions(baton_test_main PUBLIC BATON_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE baton_test_main ${A_DEPS})
  baton_unity(${name})
  # GCC 12 sees overlaps in copies of short literals that it inlines (bug 105651); tests assign many.
  target_compile_options(${name} PRIVATE "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>")
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
endfunction()
