// The command that starts a server, stripped of its wrappers: `python3 -m`, `env`, a shell, a
// container. Pure.
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

enum class launcher { vllm, tgi, llama, sglang, torchserve, torchserve_llm, triton, triton_openai };

struct launch_mount {
  std::string outside; // a path on this machine, or a volume's name
  std::string inside;
};

struct launch_port {
  std::string address; // on this machine; empty: all
  std::string outside; // empty: any free port
  std::string inside;
};

// Where clients reach one of the server's ports.
struct launch_address {
  std::string host, port;
  bool is_published = true; // false: the container does not publish the port

  std::string text() const; // "0.0.0.0:8000", "[::1]:8000"
};

enum class env_file_kind { plain, compose };

struct launch_env_file {
  std::string path; // on this machine
  env_file_kind kind = env_file_kind::plain;
  bool is_required = true;
};

struct launch_line {
  launcher program = launcher::vllm;
  std::vector<std::string> args;                // after the program
  std::map<std::string, std::string> variables; // of the environment
  std::map<std::string, std::string> defaults;  // of the image, for variables that are not set
  std::vector<launch_env_file> env_files;       // launch_files.hpp reads them
  std::vector<launch_mount> mounts;
  std::vector<launch_port> ports;
  bool is_container = false;
  std::string image; // of the container
  bool has_host_network = false;
  std::string gpus; // as in `docker run --gpus`: "all", "2", "device=0,1"; empty: not given
  std::vector<std::string> notes;

  // Maps a container path to this machine; unchanged if nothing is mounted there.
  std::string outside(const std::string& path) const;
  // Where clients reach a server that listens at `host` and `port`: there, or at the port that its
  // container publishes. Without a published port only this machine reaches it.
  launch_address reached_at(std::string host, std::string port) const;
};

// Whether a command that begins with this word can be read: "vllm", "docker", "A=b", ... Also for a
// word that is a whole line: "A=b vllm serve M".
bool is_launch_program(std::string_view arg);

// `args`: the whole command, as split by a shell, or one word that holds it. Errors: bad_config (it
// starts none of these servers; the message lists the supported ones).
result<launch_line> read_launch_line(std::span<const std::string> args);

// Splits a text into commands and words as a shell does, without expansion. Errors: bad_config (a
// quote is not closed).
result<std::vector<std::vector<std::string>>> split_shell(std::string_view text);

// The command of one service of a compose file, or of the only server if `service` is empty.
// `variable`: the value of ${NAME}, if set. `directory`: the file's directory. Errors: bad_config
// (malformed YAML, no such service, no server or several).
using variable_lookup = std::function<std::optional<std::string>(const std::string&)>;
result<launch_line> read_compose(std::string_view yaml, const std::string& service,
                                 const std::string& directory, const variable_lookup& variable);
// Whether the text is a compose file: it has services.
bool is_compose(std::string_view yaml);

namespace start_line {

// Expands $NAME, ${NAME}, ${NAME:-default}, ${NAME-default}, ${NAME:?why}; $$ is a $.
std::string interpolated(std::string_view text, const variable_lookup& variable);

// The command that an image of this name runs with these arguments; `entry_point` overrides the
// image's own. None if it is not a known server.
std::optional<std::vector<std::string>> command_in(const std::string& image,
                                                   const std::optional<std::string>& entry_point,
                                                   std::vector<std::string> arguments);
// Parses "127.0.0.1:8000:80/tcp", "8000:80", "80".
launch_port port_of(std::string_view text);
// Parses "/models:/data:ro"; none for a volume without a source.
std::optional<launch_mount> mount_of(std::string_view text);
// Parses `docker run ...` without its first word. Errors: bad_config.
result<launch_line> read_container(std::span<const std::string> args);

// Notes all variables except `read`, for servers whose options have no variables.
void note_variables(const launch_line& line, std::string_view read,
                    std::vector<std::string>& notes);

} // namespace start_line

} // namespace baton::cluster
