// The way in: from a client's request to its admission, and what ends one early.
#include "schema/codec_parts.hpp"

namespace baton::codec {

offset<wire::Reserve> put(writer& out, const reserve& m) {
  auto model = out.text(m.model, limits::name_bytes_max);
  auto request_id = out.text(m.request_id, limits::name_bytes_max);
  return wire::CreateReserve(out.buffer, m.request, m.gateway.value, model, m.choices,
                             m.tokens_estimate, m.priority, m.resume_key, m.is_resumable,
                             m.ticket.value, request_id, m.request_digest, m.was_admitted);
}

void get(reader& in, const wire::Reserve& from, reserve& to) {
  to.request = from.request();
  to.gateway = {from.gateway()};
  in.text(from.model(), to.model, limits::name_bytes_max, "reserve.model");
  in.at_most(from.choices(), limits::choices_max, "reserve.choices");
  to.choices = from.choices();
  to.tokens_estimate = from.tokens_estimate();
  to.priority = from.priority();
  to.resume_key = from.resume_key();
  to.is_resumable = from.is_resumable();
  to.ticket = {from.ticket()};
  in.text(from.request_id(), to.request_id, limits::name_bytes_max, "reserve.request_id");
  to.request_digest = from.request_digest();
  to.was_admitted = from.goes_on();
}

offset<wire::Granted> put(writer& out, const granted& m) {
  return wire::CreateGranted(out.buffer, m.request, m.ticket.value, m.epoch.value, m.resume_key,
                             m.is_submitted);
}

void get(reader&, const wire::Granted& from, granted& to) {
  to = {from.request(), {from.ticket()}, {from.epoch()}, from.resume_key(), from.is_submitted()};
}

offset<wire::Resume> put(writer& out, const resume& m) {
  auto from =
      out.structs<wire::ResumePoint>(m.from, limits::choices_max, [](const resume_point& p) {
        return wire::ResumePoint(p.index, p.has_finish);
      });
  return wire::CreateResume(out.buffer, m.request, m.gateway.value, m.ticket.value, m.resume_key,
                            from);
}

void get(reader& in, const wire::Resume& from, resume& to) {
  to.request = from.request();
  to.gateway = {from.gateway()};
  to.ticket = {from.ticket()};
  to.resume_key = from.resume_key();
  in.structs(from.from(), to.from, limits::choices_max, "resume.from",
             [](const wire::ResumePoint& p) {
               return resume_point{p.index(), p.has_finish()};
             });
}

offset<wire::DeliveredChoice> put(writer& out, const delivered_choice& m) {
  return wire::CreateDeliveredChoice(out.buffer, out.numbers(m.ids, limits::ids_max), m.is_over);
}

void get(reader& in, const wire::DeliveredChoice& from, delivered_choice& to) {
  in.numbers(from.ids(), to.ids, limits::ids_max, "delivered.ids");
  to.is_over = from.is_over();
}

// None if all options have their defaults.
offset<wire::TemplateOptions> put(writer& out, const template_options& m) {
  if (m == template_options{})
    return 0;
  auto kwargs = out.text(m.kwargs, limits::prompt_bytes_max);
  auto documents = out.text(m.documents, limits::prompt_bytes_max);
  return wire::CreateTemplateOptions(out.buffer, kwargs, documents, m.continues_final,
                                     m.local_seconds, static_cast<wire::SpecialTokens>(m.special));
}

void get(reader& in, const wire::TemplateOptions& from, template_options& to) {
  in.text(from.kwargs(), to.kwargs, limits::prompt_bytes_max, "template_options.kwargs");
  in.text(from.documents(), to.documents, limits::prompt_bytes_max, "template_options.documents");
  to.continues_final = from.continues_final();
  to.local_seconds = from.local_seconds();
  in.one_of(from.special(), to.special, special_tokens::usual, special_tokens::omitted,
            "template_options.special");
}

offset<wire::Rejected> put(writer& out, const rejected& m) {
  auto reason = put(out, m.reason);
  return wire::CreateRejected(out.buffer, m.request, m.ticket.value, reason, m.retry_after.count(),
                              m.queue_position);
}

void get(reader& in, const wire::Rejected& from, rejected& to) {
  to.request = from.request();
  to.ticket = {from.ticket()};
  in.table(from.reason(), to.reason);
  in.duration(from.retry_after_ms(), to.retry_after, "rejected.retry_after");
  to.queue_position = from.queue_position();
}

offset<wire::RequestTerms> put(writer& out, const request_terms& m) {
  auto sampling = put(out, m.sampling);
  auto stop = put(out, m.stop);
  auto cache_salt = out.text(m.cache_salt, limits::name_bytes_max);
  return wire::CreateRequestTerms(out.buffer, m.choices, sampling, stop, m.max_tokens_given,
                                  m.deadline.count(), cache_salt, m.wants_embedding);
}

void get(reader& in, const wire::RequestTerms& from, request_terms& to) {
  in.at_most(from.choices(), limits::choices_max, "request_terms.choices");
  to.choices = from.choices();
  in.table(from.sampling(), to.sampling);
  in.table(from.stop(), to.stop);
  to.max_tokens_given = from.tokens_max_given();
  in.duration(from.deadline_ms(), to.deadline, "request_terms.deadline");
  in.text(from.cache_salt(), to.cache_salt, limits::name_bytes_max, "request_terms.cache_salt");
  to.wants_embedding = from.embeds();
}

offset<wire::Submit> put(writer& out, const submit& m) {
  auto input = put_prompt(out, m.input);
  auto terms = put(out, m.terms);
  auto delivered = out.tables(m.delivered, limits::choices_max);
  auto tools = out.text(m.tools, limits::prompt_bytes_max);
  auto template_options = put(out, m.template_options);
  return wire::CreateSubmit(out.buffer, m.request, m.gateway.value, m.ticket.value, input.type,
                            input.table, m.add_generation_prompt, terms, delivered, m.begins_text,
                            m.prompt_tokens_max, tools, m.parses_special, m.max_tokens_default,
                            template_options);
}

void get(reader& in, const wire::Submit& from, submit& to) {
  to.request = from.request();
  to.gateway = {from.gateway()};
  to.ticket = {from.ticket()};
  get_prompt(in, from.input_type(), from.input(), to.input);
  to.add_generation_prompt = from.add_generation_prompt();
  in.table(from.terms(), to.terms);
  in.tables(from.delivered(), to.delivered, limits::choices_max, "submit.delivered");
  to.begins_text = from.begins_text();
  to.prompt_tokens_max = from.prompt_tokens_max();
  in.text(from.tools(), to.tools, limits::prompt_bytes_max, "submit.tools");
  to.parses_special = from.parses_special();
  to.max_tokens_default = from.tokens_max_default();
  in.table(from.template_options(), to.template_options);
}

offset<wire::Admit> put(writer& out, const admit& m) {
  auto prompt_ids = out.numbers(m.prompt_ids, limits::ids_max);
  auto terms = put(out, m.terms);
  auto delivered = out.tables(m.delivered, limits::choices_max);
  return wire::CreateAdmit(out.buffer, m.request, m.gateway.value, m.ticket.value, prompt_ids,
                           terms, delivered, m.continues_prompt);
}

void get(reader& in, const wire::Admit& from, admit& to) {
  to.request = from.request();
  to.gateway = {from.gateway()};
  to.ticket = {from.ticket()};
  in.numbers(from.prompt_ids(), to.prompt_ids, limits::ids_max, "admit.prompt_ids");
  in.table(from.terms(), to.terms);
  in.tables(from.delivered(), to.delivered, limits::choices_max, "admit.delivered");
  to.continues_prompt = from.continues_prompt();
}

offset<wire::Cancel> put(writer& out, const cancel& m) {
  auto reason = out.optional(m.reason);
  return wire::CreateCancel(out.buffer, m.ticket.value, m.choice.has_value(), m.choice.value_or(0),
                            static_cast<wire::CancelReason>(m.why), m.tokens_kept, reason);
}

void get(reader& in, const wire::Cancel& from, cancel& to) {
  to.ticket = {from.ticket()};
  if (from.has_choice())
    to.choice = from.choice();
  in.one_of(from.why(), to.why, cancel_reason::client_gone, cancel_reason::client_lost,
            "cancel.why");
  to.tokens_kept = from.tokens_kept();
  in.optional(from.reason(), to.reason);
}

offset<wire::Generate> put(writer& out, const generate& m) {
  auto model = out.text(m.model, limits::name_bytes_max);
  auto input = put_prompt(out, m.input);
  auto sampling = put(out, m.terms.sampling);
  auto stop = put(out, m.terms.stop);
  auto cache_salt = out.text(m.terms.cache_salt, limits::name_bytes_max);
  auto request_id = out.text(m.request_id, limits::name_bytes_max);
  auto tools = out.text(m.tools, limits::prompt_bytes_max);
  auto template_options = put(out, m.template_options);
  return wire::CreateGenerate(out.buffer, m.request, model, input.type, input.table,
                              m.terms.choices, sampling, stop, m.terms.max_tokens_given,
                              m.terms.deadline.count(), cache_salt, m.priority, m.is_resumable,
                              request_id, m.prompt_tokens_max, tools, m.terms.wants_embedding,
                              m.unspecified, template_options);
}

void get(reader& in, const wire::Generate& from, generate& to) {
  to.request = from.request();
  in.text(from.model(), to.model, limits::name_bytes_max, "generate.model");
  get_prompt(in, from.input_type(), from.input(), to.input);
  in.at_most(from.choices(), limits::choices_max, "generate.choices");
  to.terms.choices = from.choices();
  in.table(from.sampling(), to.terms.sampling);
  in.table(from.stop(), to.terms.stop);
  to.terms.max_tokens_given = from.tokens_max_given();
  in.duration(from.deadline_ms(), to.terms.deadline, "generate.deadline");
  in.text(from.cache_salt(), to.terms.cache_salt, limits::name_bytes_max, "generate.cache_salt");
  to.priority = from.priority();
  to.is_resumable = from.is_resumable();
  in.text(from.request_id(), to.request_id, limits::name_bytes_max, "generate.request_id");
  to.prompt_tokens_max = from.prompt_tokens_max();
  in.text(from.tools(), to.tools, limits::prompt_bytes_max, "generate.tools");
  to.terms.wants_embedding = from.embeds();
  to.unspecified = from.unsaid();
  in.table(from.template_options(), to.template_options);
}

} // namespace baton::codec
