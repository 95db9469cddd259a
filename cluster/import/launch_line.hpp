// The line that starts a server, without what stands around it: `python3 -m`, `env`, a shell, a
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

enum class launcher { vllm, tgi, llama, sglang, torchserve, triton };

struct launch_mount {
  std::string outside; // a path of this machine, or a volume's name
  std::string inside;
};

struct launch_port {
  std::string address; // of this machine; empty: all
  std::string outside; // empty: a free one
  std::string inside;
};

// Where clients reach one of the server's ports.
struct launch_address {
  std::string host, port;
  bool is_published = true; // false: of a container that keeps the port to itself

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
  std::vector<std::string> words;               // behind the program
  std::map<std::string, std::string> variables; // of its environment
  std::map<std::string, std::string> defaults;  // of the image, where no variable is said
  std::vector<launch_env_file> env_files;       // launch_files.hpp reads them
  std::vector<launch_mount> mounts;
  std::vector<launch_port> ports;
  bool is_container = false;
  std::string image; // of the container
  bool has_host_network = false;
  std::string gpus; // as `docker run --gpus` has it: "all", "2", "device=0,1"; empty: not said
  std::vector<std::string> notes;

  // Where a path of a container is on this machine; as it is, if nothing is mounted there.
  std::string outside(const std::string& path) const;
  // Of a server that listens at `host` and `port`: there, or where its container publishes the
  // port; one that is not published is reached from this machine alone.
  launch_address reached_at(std::string host, std::string port) const;
};

// Whether a line of which this is the first word can be read: "vllm", "docker", "A=b", ...
bool is_launch_word(std::string_view word) noexcept;

// `words`: the whole line, as a shell would hand it over. Errors: bad_config (it starts none of
// these servers; says which can be read).
result<launch_line> read_launch_line(std::span<const std::string> words);

// A text as a shell splits it: the commands of it, each as its words. Nothing is expanded. Errors:
// bad_config (a quote has no end).
result<std::vector<std::vector<std::string>>> split_shell(std::string_view text);

// A compose file: the line of one service; of the one that is a server, if `service` is empty.
// `variable`: what ${NAME} stands for, nothing if it is not set. `directory`: of the file. Errors:
// bad_config (no YAML, no such service, none or several are servers).
using variable_lookup = std::function<std::optional<std::string>(const std::string&)>;
result<launch_line> read_compose(std::string_view yaml, const std::string& service,
                                 const std::string& directory, const variable_lookup& variable);
// Whether it is one: it has services.
bool is_compose(std::string_view yaml);

namespace start_line {

// $NAME, ${NAME}, ${NAME:-default}, ${NAME-default}, ${NAME:?why}; $$ is a $.
std::string interpolated(std::string_view text, const variable_lookup& variable);

// What starts in an image of this name, with these arguments; `entry_point`: what the line says in
// its place. Nothing if no server does.
std::optional<std::vector<std::string>> command_in(const std::string& image,
                                                   const std::optional<std::string>& entry_point,
                                                   std::vector<std::string> arguments);
// "127.0.0.1:8000:80/tcp", "8000:80", "80".
launch_port port_of(std::string_view text);
// "/models:/data:ro"; nothing of a volume without a source.
std::optional<launch_mount> mount_of(std::string_view text);
// `docker run ...` without its first word. Errors: bad_config.
result<launch_line> read_container(std::span<const std::string> words);

} // namespace start_line

} // namespace baton::cluster
