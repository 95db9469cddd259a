// The commands of `cluster` that talk to a running cluster or look at this machine. Each returns
// the exit status (exit_status.hpp).
#pragma once

#include "cluster/process/running_clusters.hpp"
#include "cluster/roles/roles.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

namespace baton::cluster {

int command_up(const up_options& options);

struct join_options {
  std::string server; // as `cluster up` shows it: tcp://HOST:PORT#KEY
  std::string node;
  std::string token;              // empty: nodes.toml knows this machine's key
  std::filesystem::path key_file; // empty: default_key_file()
  std::filesystem::path run_dir;  // empty: default_run_dir()
};
int command_join(const join_options& options);
struct keygen_options {
  std::filesystem::path file; // of the machine's key, or of API keys; empty: the default, or none
  std::string api;            // the name of an API key; empty: the machine's key
  bool admin = false;
};
int command_keygen(const keygen_options& options);

struct rotate_options {
  std::string which;
  bool force = false; // even if a machine has not confirmed the new key
};
// Replaces this machine's key; returns when the old one is revoked.
int command_rotate_key(const rotate_options& options);

int command_plan(const std::filesystem::path& config, bool json);
int command_status(const std::string& which, bool json, bool watch);
// Moves a node's layers to others, or others' layers to it; returns when that is done.
int command_change_nodes(const std::string& node, const std::string& which, bool is_drain);
// Removes the node from the cluster.
int command_remove_node(const std::string& node, const std::string& which);
struct scale_options {
  std::string which;
  std::string model;
  std::uint32_t replicas = 0;             // 0: unchanged
  std::uint32_t tensor_parallel_size = 0; // 0: unchanged; one of the two is given
};
// Returns when the replicas serve with stages of that width.
int command_scale(const scale_options& options);
struct import_options {
  std::string from;              // a YAML file, or the first word of a command
  std::vector<std::string> args; // from `from` on
  std::string model;             // empty: the command's
  std::string name;              // empty: the model file's
  std::string properties;        // config.properties; empty: TorchServe's defaults
  std::string handler; // TorchServe's handler for a model-config.yaml; empty: an LLM's file
};
// Writes nodes.toml to stdout, and notes about differences to stderr.
int command_import(const import_options& options);
int command_down(const std::string& which, std::chrono::seconds patience);
struct doctor_options {
  std::string config;                // a nodes.toml whose needs are checked too
  std::string device;                // check only this one
  std::uint32_t ranks = 1;           // width of a stage on such devices
  std::uint32_t ranks_on_device = 1; // ranks that share this device
  bool json = false;
};
int command_doctor(const doctor_options& what);
int command_model_inspect(const std::filesystem::path& file, bool json);

struct chat_options {
  std::string which;
  std::string endpoint; // of the gateway's ZeroMQ server; empty: the running cluster's
  std::string api_key;  // empty: that of the environment, BATON_API_KEY
  std::string model;
  std::string system;
  std::string message;               // empty: a conversation, line by line from stdin
  std::optional<double> temperature; // none: the model's default, else the API's
  std::uint32_t max_tokens = 512;
};
int command_chat(const chat_options& options);
// Talks to the gateway at options.endpoint; `shown` describes it for people. An empty message is a
// conversation.
int chat_at(chat_options options, const std::string& shown);

struct run_options {
  std::filesystem::path model; // a GGUF file, a directory of safetensors, or a reference
  bool pull = false;           // downloads it if it is not there
  std::string name;            // as clients ask for it; empty: the file's
  std::string device = "cpu";
  std::uint32_t port = 0;          // of HTTP, on loopback; 0: 8000, or a free one if that is taken
  std::uint32_t max_model_len = 0; // 0: the default
  bool serve = false;              // serves until ^C, without a conversation
  bool print_config = false;       // prints the nodes.toml, and starts nothing
  chat_options chat;
};
// Serves one model on this machine without a nodes.toml. Unless it only serves, it then talks to
// it, and stops it at the end. If a cluster of the model's name runs already, it only talks to
// that.
int command_run(const run_options& options);
// Downloads a model and prints its path.
int command_pull(const std::string& reference);
// The models on this machine.
int command_models(bool json);
// The models that have short names, and whether they are downloaded.
int command_known_models(bool json);
// Removes a downloaded model that no running cluster serves.
int command_rm(const std::string& reference);
// The running clusters of this machine, a line each.
int command_ps(bool json);

struct logs_options {
  std::string which;
  std::string process;      // empty: all
  bool follow = false;      // and shows what is added, until ^C
  std::uint32_t lines = 50; // the last of each process
};
int command_logs(const logs_options& options);

// Prints the error to stderr and returns the exit status.
inline int refuse_command(const error& e) {
  std::fprintf(stderr, "error: %s\n", e.message.c_str());
  return 1;
}

} // namespace baton::cluster
