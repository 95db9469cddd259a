# Writes the file with the build's version, if the version has changed. Each build runs it.
#
#   cmake -DSOURCE=DIR -DTEMPLATE=version.cpp.in -DOUTPUT=version.cpp -DVERSION=0.1.0 -P build_version.cmake
#
# The version is the commit's short name, and a digest of the sources if files differ from the commit.
# Without git it is the digest alone. Two builds that differ must not have the same version.
set(parts schema runtime actors gateway cluster cmake CMakeLists.txt)

function(run_git out)
  execute_process(COMMAND git -C "${SOURCE}" ${ARGN} OUTPUT_VARIABLE said RESULT_VARIABLE status
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT status EQUAL 0)
    set(said "")
  endif()
  set(${out} "${said}" PARENT_SCOPE)
endfunction()

function(digest_sources out)
  set(all "")
  foreach(part ${parts})
    if(IS_DIRECTORY "${SOURCE}/${part}")
      set(patterns "")
      foreach(end cpp hpp inc cu fbs proto txt cmake in js css html svg)
        list(APPEND patterns "${SOURCE}/${part}/*.${end}")
      endforeach()
      file(GLOB_RECURSE files RELATIVE "${SOURCE}" ${patterns})
    else()
      set(files "${part}")
    endif()
    list(SORT files)
    foreach(file ${files})
      file(SHA256 "${SOURCE}/${file}" digest)
      string(APPEND all "${file} ${digest}\n")
    endforeach()
  endforeach()
  string(SHA256 digest "${all}")
  string(SUBSTRING "${digest}" 0 12 digest)
  set(${out} "${digest}" PARENT_SCOPE)
endfunction()

# Not a repository that these sources merely lie in.
run_git(top rev-parse --show-toplevel)
get_filename_component(here "${SOURCE}" REALPATH)
if(top STREQUAL here)
  run_git(revision rev-parse --short HEAD)
endif()
if(revision)
  run_git(changed status --porcelain -- ${parts})
  if(changed)
    digest_sources(digest)
    string(APPEND revision ".${digest}")
  endif()
else()
  digest_sources(digest)
  set(revision "sha256.${digest}")
endif()
set(PROJECT_VERSION "${VERSION}")
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
