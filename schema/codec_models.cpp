// Which models workers serve, and who changes that.
#include "schema/codec_parts.hpp"

namespace baton::codec {

offset<wire::ModelWorker> put(writer& out, const model_worker& m) {
  const auto name = out.text(m.name, limits::name_bytes_max);
  return wire::CreateModelWorker(out.buffer, m.node.value, name, m.gateway_index);
}

void get(reader& in, const wire::ModelWorker& from, model_worker& to) {
  to.node = {from.node()};
  in.text(from.name(), to.name, limits::name_bytes_max, "model_worker.name");
  to.gateway_index = from.gateway_index();
}

offset<wire::ServedModel> put(writer& out, const served_model& m) {
  const auto name = out.text(m.name, limits::name_bytes_max);
  const auto version = out.text(m.version, limits::name_bytes_max);
  const auto reason = out.reason(m.reason);
  const auto config = out.text(m.config, limits::model_config_bytes_max);
  const auto workers = out.tables(m.workers, limits::nodes_max);
  return wire::CreateServedModel(out.buffer, name, version, m.revision,
                                 static_cast<wire::ModelState>(m.state), reason, m.is_of_repository,
                                 config, workers);
}

void get(reader& in, const wire::ServedModel& from, served_model& to) {
  in.text(from.name(), to.name, limits::name_bytes_max, "served_model.name");
  in.text(from.version(), to.version, limits::name_bytes_max, "served_model.version");
  to.revision = from.revision();
  in.one_of(from.state(), to.state, model_state::loading, model_state::unavailable,
            "served_model.state");
  in.text(from.reason(), to.reason, limits::reason_bytes_max, "served_model.reason");
  to.is_of_repository = from.is_of_repository();
  in.text(from.config(), to.config, limits::model_config_bytes_max, "served_model.config");
  in.tables(from.workers(), to.workers, limits::nodes_max, "served_model.workers");
}

offset<wire::ServedModels> put(writer& out, const served_models& m) {
  const auto all = out.tables(m.all, limits::nodes_max);
  return wire::CreateServedModels(out.buffer, static_cast<wire::ModelControl>(m.control), all);
}

void get(reader& in, const wire::ServedModels& from, served_models& to) {
  in.one_of(from.control(), to.control, model_control::none, model_control::clients,
            "served_models.control");
  in.tables(from.all(), to.all, limits::nodes_max, "served_models.all");
}

offset<wire::ChangeModel> put(writer& out, const change_model& m) {
  const auto model = out.text(m.model, limits::name_bytes_max);
  return wire::CreateChangeModel(out.buffer, m.request, model, m.is_unload);
}

void get(reader& in, const wire::ChangeModel& from, change_model& to) {
  to.request = from.request();
  in.text(from.model(), to.model, limits::name_bytes_max, "change_model.model");
  to.is_unload = from.is_unload();
}

offset<wire::ModelChanged> put(writer& out, const model_changed& m) {
  const auto failure = out.optional(m.failure);
  return wire::CreateModelChanged(out.buffer, m.request, failure);
}

void get(reader& in, const wire::ModelChanged& from, model_changed& to) {
  to.request = from.request();
  in.optional(from.failure(), to.failure);
}

offset<wire::ModelDrained> put(writer& out, const model_drained& m) {
  return wire::CreateModelDrained(out.buffer, m.revision);
}

void get(reader&, const wire::ModelDrained& from, model_drained& to) {
  to.revision = from.revision();
}

} // namespace baton::codec
