#include "tests/support/fake_head.hpp"

#include "schema/result.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <map>
#include <sstream>

namespace baton::tests {
namespace {

// As a JSON string, whatever the text contains.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Next token of a ticket's choice; local to the fake scheduler.
struct step {
  ticket_id ticket;
  std::uint32_t choice = 0;
};

} // namespace
} // namespace baton::tests

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::tests::step)

namespace baton::tests {
namespace {

constexpr std::uint32_t max_model_len = 4096;
constexpr std::uint32_t bytes_a_token = 3; // of an `answer`

struct orders {
  std::uint32_t tokens = 8;
  std::uint32_t pace_ms = 0;
  std::uint32_t bytes = 0;
  std::uint32_t fail_at = 0;
  std::uint32_t twice_at = 0;
  std::uint32_t gap_at = 0;
  std::uint32_t gaps = 1;
  bool holds = false;
  std::string text;
  std::string stop;
  std::string answer;
  std::optional<errc> refuse;
};

std::string of_hex(std::string_view digits) {
  std::string out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned char byte = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    out += static_cast<char>(byte);
  }
  return out;
}

std::optional<errc> errc_named(std::string_view name) {
  for (const auto& row : errc_table()) {
    if (row.name == name) {
      return row.code;
    }
  }
  return std::nullopt;
}

orders read_orders(const std::string& prompt_text) {
  orders o;
  std::map<std::string, std::uint32_t*> numbers{{"tokens", &o.tokens},     {"pace_ms", &o.pace_ms},
                                                {"bytes", &o.bytes},       {"fail_at", &o.fail_at},
                                                {"twice_at", &o.twice_at}, {"gap_at", &o.gap_at},
                                                {"gaps", &o.gaps}};
  std::istringstream words(prompt_text);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) {
      continue;
    }
    const auto key = word.substr(0, equals);
    const auto value = word.substr(equals + 1);
    if (const auto it = numbers.find(key); it != numbers.end()) {
      std::from_chars(value.data(), value.data() + value.size(), *it->second);
    } else if (key == "text") {
      o.text = value;
    } else if (key == "stop") {
      o.stop = value;
    } else if (key == "answer") {
      o.answer = of_hex(value);
      o.tokens = static_cast<std::uint32_t>((o.answer.size() + bytes_a_token - 1) / bytes_a_token);
    } else if (key == "refuse") {
      o.refuse = errc_named(value);
    } else if (key == "hold") {
      o.holds = true;
    }
  }
  return o;
}

std::string text_of(const prompt& p) {
  if (const auto* text = std::get_if<std::string>(&p)) {
    return *text;
  }
  std::string all;
  if (const auto* chat = std::get_if<chat_prompt>(&p)) {
    for (const auto& m : *chat) {
      all += m.role + ": " + m.content + "\n";
    }
  } else {
    for (const auto id : std::get<ids_prompt>(p)) {
      all += static_cast<char>(id);
    }
  }
  return all;
}

std::vector<token_id> ids_of(const std::string& text) {
  std::vector<token_id> ids;
  for (const char c : text) {
    ids.push_back(static_cast<unsigned char>(c));
  }
  return ids;
}

struct fake_ticket {
  admit request;
  orders what;
  std::vector<std::uint32_t> made; // tokens, per choice
  std::vector<bool> ended;
};

// The typed interface and one message of its own.
using fake_scheduler = actors::scheduler_actor::extend<caf::reacts_to<step>>;

struct fake_state {
  fake_head_config config;
  std::map<ticket_id, fake_ticket> tickets;
  std::map<ticket_id, fake_ticket> ended;
  std::map<ticket_id, std::uint64_t> reserved; // granted, not yet admitted
};
using fake_self = fake_scheduler::stateful_pointer<fake_state>;

std::string token_text(const orders& o, std::uint32_t index) {
  if (!o.answer.empty()) {
    return o.answer.substr(std::size_t{index} * bytes_a_token, bytes_a_token);
  }
  auto text = o.text.empty() ? fmt::format("w{} ", index) : o.text;
  if (o.bytes > text.size()) {
    text.append(o.bytes - text.size(), '.');
  }
  return text;
}

token_detail detail_of(const std::string& text, std::int32_t top) {
  token_detail d{{text, 7, -0.5F}, {}, static_cast<std::uint32_t>(text.size())};
  for (std::int32_t i = 0; i < top; ++i) {
    d.top.push_back({text + std::to_string(i), 7 + i, -0.5F - static_cast<float>(i)});
  }
  return d;
}

void forget_if_done(fake_state& s, ticket_id ticket) {
  const auto it = s.tickets.find(ticket);
  for (const bool ended : it->second.ended) {
    if (!ended) {
      return;
    }
  }
  s.ended.insert(s.tickets.extract(it));
}

chunk chunk_of(const fake_ticket& t, ticket_id ticket, std::uint32_t choice) {
  chunk c;
  c.request = t.request.request;
  c.ticket = ticket;
  c.choice = choice;
  c.index = t.made[choice];
  c.prompt_tokens = static_cast<std::uint32_t>(t.request.prompt_ids.size());
  c.output_tokens = t.made[choice];
  return c;
}

void end_choice(fake_self self, ticket_id ticket, std::uint32_t choice, finish how,
                std::optional<error> why) {
  auto& t = self->state.tickets.at(ticket);
  auto c = chunk_of(t, ticket, choice);
  c.finish = how;
  c.prepare_micros = 1; // shorter than the time that has passed
  c.queue_micros = 2;
  c.failure = std::move(why);
  c.stop_text = how == finish::stop ? t.what.stop : "";
  t.ended[choice] = true;
  self->send(*self->state.config.gateway, chunks{{std::move(c)}, {}});
  forget_if_done(self->state, ticket);
}

// `tokens` numbers: 1/1, 1/2, 1/3 ...; not of length 1.
void embed(fake_self self, const step& m) {
  auto& t = self->state.tickets.at(m.ticket);
  if (t.what.fail_at > 0) {
    return end_choice(self, m.ticket, m.choice, finish::failed,
                      fail(errc::internal, "told to fail"));
  }
  auto c = chunk_of(t, m.ticket, m.choice);
  c.finish = finish::stop;
  for (std::uint32_t i = 1; i <= t.what.tokens; ++i) {
    c.embedding.push_back(1 / static_cast<float>(i));
  }
  t.ended[m.choice] = true;
  self->send(*self->state.config.gateway, chunks{{std::move(c)}, {}});
  forget_if_done(self->state, m.ticket);
}

// Prompt token i, a byte of its text, has log-probability -i / 4. They come in two chunks; the
// second repeats the last token of the first, as a restarted head does.
void send_prompt(fake_self self, const step& m) {
  const auto& t = self->state.tickets.at(m.ticket);
  auto first = chunk_of(t, m.ticket, m.choice);
  for (std::size_t i = 0; i < t.request.prompt_ids.size(); ++i) {
    auto d = detail_of(std::string(1, static_cast<char>(t.request.prompt_ids[i])),
                       t.request.terms.sampling.prompt_logprobs);
    d.chosen.token = t.request.prompt_ids[i];
    d.chosen.logprob = -static_cast<float>(i) / 4;
    first.prompt_details.push_back(std::move(d));
  }
  auto rest = first;
  const auto half = first.prompt_details.size() / 2;
  rest.prompt_details.erase(rest.prompt_details.begin(),
                            rest.prompt_details.begin() + static_cast<std::ptrdiff_t>(half));
  rest.prompt_from = static_cast<std::uint32_t>(half);
  first.prompt_details.resize(std::min(half + 1, first.prompt_details.size()));
  self->send(*self->state.config.gateway, chunks{{std::move(first), std::move(rest)}, {}});
}

void make_token(fake_self self, const step& m) {
  auto& s = self->state;
  const auto it = s.tickets.find(m.ticket);
  if (it == s.tickets.end() || it->second.ended[m.choice]) {
    return;
  }
  auto& t = it->second;
  if (t.request.terms.wants_embedding) {
    return embed(self, m);
  }
  const auto wanted = std::min(t.what.tokens, t.request.terms.stop.max_tokens);
  if (t.made[m.choice] == 0 && t.request.terms.sampling.prompt_logprobs >= 0) {
    send_prompt(self, m);
  }
  if (wanted == 0) {
    return end_choice(self, m.ticket, m.choice, finish::length, std::nullopt);
  }
  const auto index = ++t.made[m.choice];
  if (index == t.what.fail_at) {
    --t.made[m.choice];
    end_choice(self, m.ticket, m.choice, finish::failed, fail(errc::internal, "told to fail"));
    return;
  }
  auto c = chunk_of(t, m.ticket, m.choice);
  c.count = 1;
  c.text = token_text(t.what, index - 1);
  c.ids = {static_cast<token_id>(index)};
  if (t.request.terms.sampling.logprobs >= 0) {
    c.details.push_back(detail_of(c.text, t.request.terms.sampling.logprobs));
  }
  const bool is_lost = index == t.what.gap_at && t.what.gaps > 0;
  t.what.gaps -= is_lost ? 1 : 0;
  const int copies = is_lost ? 0 : index == t.what.twice_at ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    self->send(*s.config.gateway, chunks{{c}, {}});
  }
  if (index >= wanted) {
    const bool is_cut_off = wanted < t.what.tokens;
    end_choice(self, m.ticket, m.choice, is_cut_off ? finish::length : finish::stop, std::nullopt);
    return;
  }
  if (t.what.pace_ms == 0) {
    self->send(self, m);
  } else {
    self->delayed_send(self, std::chrono::milliseconds(t.what.pace_ms), m);
  }
}

void on_reserve(fake_self self, const reserve& m) {
  auto& s = self->state;
  if (s.tickets.size() + s.reserved.size() >= s.config.slots) {
    rejected no;
    no.request = m.request;
    no.reason = fail(errc::no_job_ticket, "no running slot is free");
    no.retry_after = s.config.retry_after;
    no.queue_position = static_cast<std::uint32_t>(s.tickets.size() + s.reserved.size());
    self->send(*s.config.gateway, std::move(no));
    return;
  }
  if (m.priority != 0) {
    rejected no;
    no.request = m.request;
    no.reason = fail_param(errc::invalid_value, "priority", "priority {} has come", m.priority);
    self->send(*s.config.gateway, std::move(no));
    return;
  }
  const auto ticket = s.config.next_ticket;
  s.config.next_ticket.value += s.config.ticket_step;
  s.reserved.emplace(ticket, m.request);
  s.config.log(
      fmt::format(R"({{"event":"reserve","ticket":{},"model":"{}","estimate":{},"request_id":{}}})",
                  ticket.value, m.model, m.tokens_estimate, quoted(m.request_id)));
  self->send(*s.config.gateway, granted{m.request, ticket, epoch_id{1}});
}

void on_admit(fake_self self, const admit& m) {
  auto& s = self->state;
  if (s.reserved.erase(m.ticket) == 0) {
    return; // cancelled before
  }
  if (!m.terms.cache_salt.empty()) {
    s.config.log(fmt::format(R"({{"event":"admit","ticket":{},"cache_salt":{}}})", m.ticket.value,
                             quoted(m.terms.cache_salt)));
  }
  std::string text;
  for (const auto id : m.prompt_ids) {
    text += static_cast<char>(id);
  }
  fake_ticket t{m, read_orders(text), std::vector<std::uint32_t>(m.terms.choices, 0),
                std::vector<bool>(m.terms.choices, false)};
  if (t.what.refuse) {
    rejected no;
    no.request = m.request;
    no.ticket = m.ticket;
    no.reason = {*t.what.refuse, "told to refuse", {}};
    self->send(*s.config.gateway, std::move(no));
    return;
  }
  const bool holds = t.what.holds;
  s.tickets.emplace(m.ticket, std::move(t));
  for (std::uint32_t choice = 0; choice < m.terms.choices && !holds; ++choice) {
    self->send(self, step{m.ticket, choice});
  }
}

void on_cancel(fake_self self, const cancel& m) {
  auto& s = self->state;
  s.config.log(fmt::format(R"({{"event":"cancel","ticket":{},"why":{}}})", m.ticket.value,
                           static_cast<int>(m.why)));
  s.reserved.erase(m.ticket);
  const auto it = s.tickets.find(m.ticket);
  if (it == s.tickets.end()) {
    return;
  }
  const auto choices = it->second.request.terms.choices;
  for (std::uint32_t i = 0; i < choices; ++i) {
    if (s.tickets.contains(m.ticket) && !s.tickets.at(m.ticket).ended[i]) {
      end_choice(self, m.ticket, i, finish::cancelled, std::nullopt);
    }
  }
}

// Produces the remaining tokens again: they are functions of their numbers.
void on_resume(fake_self self, const resume& m) {
  auto& s = self->state;
  if (!s.tickets.contains(m.ticket)) {
    s.tickets.insert(s.ended.extract(m.ticket));
  }
  const auto it = s.tickets.find(m.ticket);
  if (it == s.tickets.end() || m.from.size() != it->second.made.size()) {
    self->send(*s.config.gateway,
               rejected{m.request, m.ticket, fail(errc::ticket_not_found, "no such ticket"),
                        std::chrono::milliseconds{0}, 0});
    return;
  }
  auto& t = it->second;
  t.request.request = m.request;
  self->send(*s.config.gateway, granted{m.request, m.ticket, epoch_id{1}});
  for (std::uint32_t choice = 0; choice < m.from.size(); ++choice) {
    t.made[choice] = m.from[choice].index;
    if (t.ended[choice]) { // otherwise its next step is already scheduled
      t.ended[choice] = false;
      self->send(self, step{m.ticket, choice});
    }
  }
}

fake_scheduler::behavior_type scheduler(fake_self self, fake_head_config config) {
  self->state.config = std::move(config);
  return {
      [self](const reserve& m) { on_reserve(self, m); },
      [self](const admit& m) { on_admit(self, m); },
      [self](const cancel& m) { on_cancel(self, m); },
      [self](const resume& m) { on_resume(self, m); },
      [](const sampled&) {},
      [](const stage_ready&) {},
      [](const generations&) {},
      [](const load_refused&) {},
      [](const epoch_opened&) {},
      [](const actors::peer_up&) {},
      [](const actors::peer_down&) {},
      [](const drain&) {},
      [](const actors::tick&) {},
      [self](const step& m) { make_token(self, m); },
  };
}

actors::tokenizer_actor::behavior_type tokenizer(actors::tokenizer_actor::pointer self,
                                                 fake_scheduler to, fake_head_config config) {
  return {
      [self, to, config](const submit& m) {
        if (!m.tools.empty()) {
          config.log(fmt::format(R"({{"event":"tools","tools":{}}})", m.tools));
        }
        admit a;
        a.request = m.request;
        a.gateway = m.gateway;
        a.ticket = m.ticket;
        a.prompt_ids = ids_of(text_of(m.input));
        if (m.prompt_tokens_max > 0 && a.prompt_ids.size() > m.prompt_tokens_max) {
          a.prompt_ids.erase(a.prompt_ids.begin(), a.prompt_ids.end() - m.prompt_tokens_max);
        }
        a.terms = m.terms;
        if (!m.terms.max_tokens_given) {
          a.terms.stop.max_tokens = max_model_len;
        }
        self->send(to, std::move(a));
      },
      [self, config](const tokenize& m) {
        tokenized t;
        t.request = m.request;
        const auto text = text_of(m.input);
        t.ids = ids_of(text);
        for (const char c : text) {
          t.pieces.emplace_back(1, c);
        }
        t.max_model_len = max_model_len;
        self->send(*config.gateway, std::move(t));
      },
      [self, config](const detokenize& m) {
        detokenized d;
        d.request = m.request;
        for (const auto id : m.ids) {
          if (id > 127) {
            d.failure = fail_param(errc::invalid_value, "tokens", "there is no token {}", id);
          } else {
            d.text += static_cast<char>(id);
          }
        }
        self->send(*config.gateway, std::move(d));
      },
  };
}

} // namespace

fake_head spawn_fake_head(caf::actor_system& system, fake_head_config config) {
  auto s = system.spawn(scheduler, config);
  auto t = system.spawn(tokenizer, s, config);
  return {s, t, config.gateway};
}

model_card fake_card(std::string name) {
  model_card card;
  card.name = std::move(name);
  card.architecture = "echo";
  card.parameters = 1;
  card.max_model_len = max_model_len;
  card.vocabulary_size = 256;
  card.sequences_max = 1000;
  card.created = 1'700'000'000;
  card.has_chat_template = true;
  card.phase = phase::ready;
  return card;
}

} // namespace baton::tests
