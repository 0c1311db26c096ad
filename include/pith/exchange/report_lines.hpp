// pith/exchange/report_lines.hpp — an exchange_report as JSON, one line per tensor and one for the total.
#pragma once

#include <pith/core/error.hpp>
#include <pith/exchange/exchange_report.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The text as a JSON string. UTF-8 is unchanged; quotes, backslashes and control characters are escaped.
inline std::string json_text(std::string_view words) {
  auto quoted = std::string("\"");
  for (auto const c : words) {
    auto const code = static_cast<unsigned char>(c);
    if (code < 0x20) {
      char escaped[7];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(code));
      quoted += escaped;
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + '"';
}

/// The value as a JSON number. NaN and infinity become null, since JSON has no numbers for them.
inline std::string json_number(double value) { return std::isfinite(value) ? shortest(value) : "null"; }

/// The fields that the line of a tensor and the line of the total have in common.
inline std::string json_fields(tensor_report const& t) {
  auto const ms = [](double seconds) { return json_number(seconds * 1e3); };
  return text("\"elements\":", t.elements, ",\"dense_bytes\":", json_number(t.dense_bytes),
              ",\"wire_bytes\":", json_number(t.wire_bytes), ",\"ratio\":", json_number(t.ratio()),
              ",\"error\":", json_number(t.error()), ",\"gain\":", json_number(t.gain()),
              ",\"ready_ms\":", ms(t.ready_seconds), ",\"encode_ms\":", ms(t.encode_seconds),
              ",\"transfer_ms\":", ms(t.transfer_seconds), ",\"decode_ms\":", ms(t.decode_seconds));
}

}  // namespace detail

/// Fields that begin each line of a report, such as {{"step", 7}, {"rank", 0}}. The names must differ from each other
/// and from the names of the report's fields.
using report_labels = std::vector<std::pair<std::string, std::int64_t>>;

/// Writes one JSON object per line: {"tensor":name,"bucket":...} for each tensor, {"tensors":count,...} for the total.
/// The fields are those of tensor_report, but times are in milliseconds. Values that were not measured are null.
inline void write_lines(std::ostream& out, exchange_report const& report, report_labels const& labels = {}) {
  auto begin = std::string("{"), lines = std::string();
  for (auto const& [name, value] : labels) begin += detail::text(detail::json_text(name), ':', value, ',');
  for (auto const& t : report.tensors) {
    lines += detail::text(begin, "\"tensor\":", detail::json_text(t.name), ",\"bucket\":", t.bucket, ',',
                          detail::json_fields(t), "}\n");
  }
  lines += detail::text(begin, "\"tensors\":", report.tensors.size(), ",\"buckets\":", report.buckets, ',',
                        detail::json_fields(report.total),
                        ",\"wait_ms\":", detail::json_number(report.wait_seconds * 1e3), "}\n");
  out.write(lines.data(), static_cast<std::streamsize>(lines.size()));  // as `<<` with a locale may group digits
}

}}  // namespace pith::PITH_ABI
