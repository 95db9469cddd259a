#include "gateway/api/torchserve/torchserve_store.hpp"

#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/api/torchserve/torchserve_models.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/workers/repository_client.hpp"
#include "schema/archive_url.hpp"
#include "schema/limits.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::size_t shown_max = 256; // of a client's text, in messages

result<bool> flag_of(const torchserve_target& asked, std::string_view name) {
  const auto text = lower(asked.find(name).value_or("false"));
  if (text != "true" && text != "false") {
    return fail_param(errc::invalid_value, name, "'{}' must be true or false, not '{}'", name,
                      text.substr(0, 64));
  }
  return text == "true";
}

result<void> read_number(const torchserve_target& asked, std::string_view name, std::int32_t least,
                         std::optional<std::uint32_t>& into) {
  if (!asked.find(name)) {
    return {};
  }
  const auto value = asked.integer(name, least);
  if (!value) {
    return value.error();
  }
  if (*value < least) {
    return fail_param(errc::invalid_value, name, "'{}' must be at least {}, not {}", name, least,
                      *value);
  }
  into = static_cast<std::uint32_t>(*value);
  return {};
}

// The root fetches URLs and checks which are allowed. A path is a 404, as in TorchServe.
result<std::string> archive_of(const torchserve_target& asked) {
  const auto url = asked.find("url").value_or("");
  const auto shown = url.substr(0, shown_max);
  if (url.empty()) {
    return fail_param(errc::invalid_request, "url", "Parameter url is required.");
  }
  if (url.find("..") != url.npos) {
    return fail_param(errc::model_not_found, "url", "Relative path is not allowed in url: {}",
                      shown);
  }
  if (is_archive_url(url)) {
    if (url.size() > archive_url_bytes_max) {
      return fail_param(errc::invalid_value, "url", "'url' has {} bytes, at most {} are read",
                        url.size(), archive_url_bytes_max);
    }
    return url;
  }
  if (url.size() > limits::name_bytes_max || url.find_first_of("/\\") != url.npos) {
    return fail_param(errc::model_not_found, "url",
                      "Model not found in the model store: {}. It must be the name of an archive "
                      "or a directory in it",
                      shown);
  }
  return url;
}

bool is_handler(std::string_view text) {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/";
  return text.size() <= limits::name_bytes_max && !text.starts_with('-') &&
         text.find_first_not_of(allowed) == text.npos;
}

} // namespace

bool has_store(const gateway_state& facts) noexcept {
  return facts.repository() && facts.repository()->has_store;
}

bool is_stored(const gateway_state& facts, const std::string& model) {
  const auto served = facts.models();
  return std::any_of(served->all.begin(), served->all.end(),
                     [&](const served_model& m) { return !m.archive.empty() && m.name == model; });
}

result<change_model> read_registration(const torchserve_target& asked) {
  if (auto ok = check_known(asked, {"url", "model_name", "handler", "runtime", "batch_size",
                                    "max_batch_delay", "initial_workers", "response_timeout",
                                    "startup_timeout", "synchronous", "s3_sse_kms"});
      !ok) {
    return ok.error();
  }
  auto archive = archive_of(asked);
  if (!archive) {
    return archive.error();
  }
  change_model out;
  out.what = model_order::register_model;
  out.archive = *std::move(archive);
  out.model = asked.find("model_name").value_or("");
  if (out.model.size() > limits::name_bytes_max) {
    return fail_param(errc::invalid_value, "model_name", "'model_name' is too long");
  }
  auto& s = out.settings;
  s.handler = asked.find("handler").value_or("");
  if (!is_handler(s.handler)) {
    return fail_param(errc::invalid_value, "handler",
                      "'handler' must be a module of the archive, as 'my_handler.py:handle'");
  }
  if (const auto runtime = lower(asked.find("runtime").value_or("python"));
      !runtime.starts_with("python")) {
    return fail_param(errc::invalid_value, "runtime", "'runtime' must be PYTHON");
  }
  const auto waits = flag_of(asked, "synchronous");
  const auto is_encrypted = flag_of(asked, "s3_sse_kms");
  if (!waits || !is_encrypted) {
    return waits ? is_encrypted.error() : waits.error();
  }
  if (*is_encrypted) {
    return fail_param(errc::unsupported_parameter, "s3_sse_kms",
                      "the parameter 's3_sse_kms' is not supported: fetch from S3 with "
                      "a signed https:// URL");
  }
  out.waits = *waits;
  for (const auto& ok : {read_number(asked, "batch_size", 1, s.batch_size),
                         read_number(asked, "max_batch_delay", 0, s.max_batch_delay),
                         read_number(asked, "response_timeout", 1, s.response_timeout),
                         read_number(asked, "startup_timeout", 1, s.startup_timeout),
                         read_number(asked, "initial_workers", 0, s.workers_min)}) {
    if (!ok) {
      return ok.error();
    }
  }
  return out;
}

result<change_model> read_scaling(const std::string& model,
                                  const std::optional<std::string>& version,
                                  const torchserve_target& asked) {
  const auto range = read_scale(asked);
  const auto waits = flag_of(asked, "synchronous");
  if (!range || !waits) {
    return range ? waits.error() : range.error();
  }
  auto out = order_of(model_order::scale, model, version);
  out.settings.workers_min = static_cast<std::uint32_t>(range->least);
  out.settings.workers_max = static_cast<std::uint32_t>(range->most);
  out.waits = *waits;
  return out;
}

change_model order_of(model_order what, const std::string& model,
                      const std::optional<std::string>& version) {
  change_model out;
  out.what = what;
  out.model = model;
  out.version = version.value_or(std::string()).substr(0, limits::name_bytes_max);
  return out;
}

http_reply store_reply(const change_model& asked, const model_changed& done) {
  constexpr int accepted = 202;
  switch (asked.what) {
  case model_order::register_model:
    if (done.workers == 0) {
      return torchserve_status(fmt::format(
          "Model \"{}\" Version: {} registered with 0 initial workers. Use scale workers API to "
          "add workers for the model.",
          done.model, done.version));
    }
    return asked.waits ? torchserve_status(
                             fmt::format("Model \"{}\" Version: {} registered with {} initial "
                                         "workers",
                                         done.model, done.version, done.workers))
                       : torchserve_status("Processing worker updates...", accepted);
  case model_order::scale:
    return asked.waits
               ? scaled_managed(static_cast<std::int32_t>(done.workers),
                                {done.model, asked.version.empty() ? std::nullopt
                                                                   : std::optional(done.version)})
               : torchserve_status("Processing worker updates...", accepted);
  case model_order::set_default:
    return torchserve_status(
        fmt::format("Default version successfully updated for model \"{}\" to \"{}\"", done.model,
                    done.version));
  default:
    return torchserve_status(fmt::format("Model \"{}\" unregistered", done.model));
  }
}

} // namespace baton::gateway
