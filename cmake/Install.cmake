# The installed files and their places: written once, and used by `cmake --install` and every package (docs/develop/release.md).
# Four components: `program`, `documents`, `system`, which is for a machine's own package manager alone, and `engine`.
# All destinations are relative to the prefix, and plugins are found from the program: a prefix may be moved.
include(GNUInstallDirs)
set(BATON_LIBRARIES lib/baton) # relative to the prefix; plugin::library_folders knows it

# Libraries that a package carries are found before the machine's own. This holds for those that a carried one needs too:
# hence DT_RPATH and not DT_RUNPATH, which is for direct needs alone. In a build and in a .deb the folder has no library.
set_target_properties(cluster PROPERTIES INSTALL_RPATH "$ORIGIN/../${BATON_LIBRARIES}")
set_target_properties(door_grpc PROPERTIES INSTALL_RPATH "$ORIGIN/..")
set_target_properties(cluster door_grpc PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
target_link_options(cluster PRIVATE LINKER:--disable-new-dtags)
target_link_options(door_grpc PRIVATE LINKER:--disable-new-dtags)

# install_link(TARGET LINK COMPONENT): the link is named from the prefix, its target from the link's folder.
function(install_link target link component)
  install(CODE "file(CREATE_LINK \"${target}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${link}\" SYMBOLIC)" COMPONENT ${component})
endfunction()

install(TARGETS cluster RUNTIME DESTINATION bin COMPONENT program)
install_link(cluster bin/baton program)
install(TARGETS door_grpc LIBRARY DESTINATION "${BATON_LIBRARIES}/doors" COMPONENT program)

# The GPU engine, for a wheel: torch and CUDA's libraries are beside baton_server, in the folder of Python's packages. In a
# build it finds them where they were found.
if(TARGET engine_torch)
  set(packages "$ORIGIN/../../../..")
  set_target_properties(engine_torch PROPERTIES INSTALL_RPATH "$ORIGIN/..:${packages}/torch/lib:${packages}/nvidia/cu13/lib")
  install(TARGETS engine_torch LIBRARY DESTINATION "${BATON_LIBRARIES}/engines" COMPONENT engine)
endif()

set(documents share/doc/baton)
install(FILES LICENSE NOTICE CHANGELOG.md DESTINATION ${documents} COMPONENT documents)
install(DIRECTORY examples DESTINATION ${documents} COMPONENT documents
        PATTERN __pycache__ EXCLUDE PATTERN four_nodes.sh EXCLUDE PATTERN Containerfile EXCLUDE) # these two are of the source tree
install(FILES docs/reference/cluster.1 DESTINATION share/man/man1 COMPONENT documents)
install_link(cluster.1 share/man/man1/baton.1 documents)
install(FILES packages/completion/cluster.bash DESTINATION share/bash-completion/completions RENAME cluster COMPONENT documents)
install_link(cluster share/bash-completion/completions/baton documents)

install(FILES packages/completion/_cluster DESTINATION share/zsh/vendor-completions COMPONENT documents)

# The examples have the place of a hand-made installation.
foreach(unit baton.service baton-node.service)
  file(READ examples/${unit} text)
  string(REPLACE /usr/local/bin/ /usr/bin/ text "${text}")
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/installed/${unit}" CONTENT "${text}" @ONLY)
  install(FILES "${CMAKE_BINARY_DIR}/installed/${unit}" DESTINATION lib/systemd/system COMPONENT system)
endforeach()
install(FILES packages/deb/sysusers.conf DESTINATION lib/sysusers.d RENAME baton.conf COMPONENT system)
install(FILES packages/deb/copyright DESTINATION ${documents} COMPONENT system)

# The Debian package, made by `cpack`, which takes all components.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME baton)
set(CPACK_PACKAGE_VENDOR Baton)
set(CPACK_PACKAGE_CONTACT "The Baton authors <baton@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed LLM server whose streams do not break")
set(CPACK_PACKAGE_DESCRIPTION "\
Baton serves language models, embeddings and models of your own on one
machine or many, on processors with AVX2, AVX-512 or AMX. Clients of OpenAI,
vLLM, TGI, Anthropic, TorchServe and Triton work unchanged. A process that
dies is replaced, and open streams continue with the same tokens.")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/packages/deb/finish.cmake")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates, python3")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_SOURCE_DIR}/packages/deb/postinst;${CMAKE_SOURCE_DIR}/packages/deb/postrm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
