// Messages to the detokenizer and the gateways, and the single path by which a choice and its
// ticket end.
#pragma once

#include "runtime/schedule/sequences/sequence_table.hpp"
#include "runtime/schedule/tickets/ticket_table.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace baton::schedule {

struct refusal {
  process_id gateway;
  rejected message;
};

struct output {
  std::vector<baton::tokens> tokens; // for the detokenizer, in order
  std::vector<refusal> refusals;     // for the gateways
};

class ticket_output {
public:
  // All of them outlive it.
  ticket_output(scheduler_context& context, ticket_table& tickets, sequence_table& sequences)
      : config_(context.config), totals_(context.totals), tickets_(tickets), sequences_(sequences) {
  }

  // The next message of a choice, without samples; the first one carries the request's data.
  tokens message_of(sequence& s);
  // Sends a message that does not end its choice.
  void send(tokens message) { output_.tokens.push_back(std::move(message)); }
  void send(refusal message) { output_.refusals.push_back(std::move(message)); }
  void expect_tokens(std::size_t more) { output_.tokens.reserve(output_.tokens.size() + more); }
  // The only transition of a choice to its end; that of the last open one ends the ticket.
  void end_choice(sequence& s, tokens last, finish how, std::optional<error> why,
                  std::uint32_t tokens_total);
  // Ends a ticket that has no output yet.
  void refuse(ticket_id id, error why);
  // Ends all open choices of the ticket.
  void fail_ticket(ticket_id id, finish how, const error& why);
  // Fails one choice; if it is the last open one, fails the ticket.
  void fail_choice(sequence& s, const error& why);
  // The output since the last call.
  output take() { return std::exchange(output_, {}); }

private:
  const scheduler_config& config_;
  load_report& totals_;
  ticket_table& tickets_;
  sequence_table& sequences_;
  output output_;
};

} // namespace baton::schedule
