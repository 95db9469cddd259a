// The `cluster` binary.
#include "cluster/commands/command_line.hpp"

int main(int argc, char** argv) {
  return baton::cluster::run_command_line(argc, argv);
}
