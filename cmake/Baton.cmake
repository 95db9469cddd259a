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

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
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
  add_link_options(-fsanitize=${BATON_SANITIZE})
endif()

set(BATON_FUZZ OFF CACHE BOOL "libFuzzer's targets in place of their replay (tests/fuzz); needs clang")
if(BATON_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-recover=all)
endif()

# Unity builds: the compiler reads several files of a target as one, and their includes once. The whole tree takes
# little more than half of the processor time (docs/decisions/0057-unity-builds.md has numbers). The costs: an edit of
# one file compiles its whole unit. Two files of a target cannot define the same name, even in unnamed namespaces. A
# missing #include goes unnoticed if the file before has it. The preset `fuzz` builds without units to find these.
# CMake leaves files with compile options of their own alone.
set(BATON_UNITY ON CACHE BOOL "compile the files of a target together, BATON_UNITY_FILES at a time")
set(BATON_UNITY_FILES 8) # at a time

function(baton_unity name)
  get_target_property(sources ${name} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(LENGTH sources count)
  if(BATON_UNITY AND count GREATER 1)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${BATON_UNITY_FILES})
    # GCC takes a .cpp that is included for a header, and warns of classes there that hold what has no linkage.
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
  endif()
endfunction()

# __FILE__ without the place of the tree: the units name their files from the root, and one compiler cache is for all clones.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=>")

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
