# CPack runs this on the installed tree of the Debian package.
set(usr "${CPACK_TEMPORARY_DIRECTORY}/usr")
# Debian's libraries are where the loader looks.
foreach(file bin/cluster lib/baton/doors/door_grpc.so)
  file(RPATH_REMOVE FILE "${usr}/${file}")
endforeach()
# Debian's policy: manuals and changelogs are compressed, without a date.
set(manuals "${usr}/share/man/man1")
set(documents "${usr}/share/doc/baton")
file(RENAME "${documents}/CHANGELOG.md" "${documents}/changelog")
execute_process(COMMAND gzip -9n "${manuals}/cluster.1" "${documents}/changelog" COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE "${manuals}/baton.1")
file(CREATE_LINK cluster.1.gz "${manuals}/baton.1.gz" SYMBOLIC)
