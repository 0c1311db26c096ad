// delay_switch.cpp — a switch in user space between network namespaces, for links with a rate and a delay.
//
//   delay_switch MBIT_PER_S ROUND_TRIP_MS NAMESPACE...      a rate of 0 is no limit
//
// Linux's own delays (netem) are missing in some kernels. Each namespace gets a TUN device eth0, whose address the caller
// sets: host i has an IPv4 address that ends in i + 1. A packet leaves its sender's link after the packets before it,
// travels for half the round trip, and arrives when the receiver's link is free. While a sender's link has 20 ms of
// traffic to send, its packets wait in the queue of its device, as TCP expects. A receiver's link that has traffic for
// 50 ms and 1 MiB drops packets. Prints "ready" when the devices exist, and runs until it is killed. Needs root.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <queue>
#include <string>
#include <vector>

namespace {

using nanoseconds = std::int64_t;
constexpr nanoseconds longest_backlog = 20'000'000;

[[noreturn]] void fail(std::string const& what) {
  std::fprintf(stderr, "delay_switch: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

nanoseconds now() {
  using namespace std::chrono;
  return duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

/// A TUN device eth0 in a namespace. `home` is the namespace of this process.
int open_device(std::string const& name, int home) {
  auto const space = open(("/var/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) < 0) fail("namespace " + name);
  close(space);
  auto const device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("/dev/net/tun");
  ifreq request = {};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strcpy(request.ifr_name, "eth0");
  if (ioctl(device, TUNSETIFF, &request) < 0) fail("TUNSETIFF in " + name);
  if (setns(home, CLONE_NEWNET) < 0) fail("leaving " + name);
  return device;
}

struct packet {
  nanoseconds time;  // when it reaches the receiver's link, then when it has arrived
  std::size_t to;
  std::vector<char> bytes;
};
struct is_later {
  bool operator()(packet const& a, packet const& b) const { return a.time > b.time; }
};

struct host {
  int device = -1;
  nanoseconds sends_until = 0, receives_until = 0;
  bool is_read = true;
  std::deque<packet> arriving;  // by time
};

class network {
 public:
  network(double mbit, double round_trip_ms, std::vector<std::string> const& names)
      : ns_per_byte_(mbit > 0 ? 8000 / mbit : 0),
        delay_(static_cast<nanoseconds>(round_trip_ms / 2 * 1e6)),
        longest_queue_(std::max(nanoseconds{50'000'000}, transfer_time(std::size_t{1} << 20))) {
    auto const home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    for (auto const& name : names) {
      hosts_.emplace_back();
      hosts_.back().device = open_device(name, home);
    }
    close(home);
    for (std::size_t i = 0; i < hosts_.size(); ++i) watch(EPOLL_CTL_ADD, hosts_[i].device, i, EPOLLIN);
    watch(EPOLL_CTL_ADD, timer_, hosts_.size(), EPOLLIN);
  }

  [[noreturn]] void run() {
    auto events = std::array<epoll_event, 64>();
    for (;;) {
      auto const n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
      if (n < 0 && errno != EINTR) fail("epoll_wait");
      for (int i = 0; i < n; ++i) handle(events[static_cast<std::size_t>(i)].data.u64);
      reach();
      for (std::size_t i = 0; i < hosts_.size(); ++i) deliver(i);
      set_timer();
    }
  }

 private:
  void watch(int how, int file, std::size_t number, std::uint32_t events) {
    auto event = epoll_event{events, {.u64 = number}};
    if (epoll_ctl(epoll_, how, file, &event) < 0) fail("epoll");
  }
  nanoseconds transfer_time(std::size_t bytes) const {
    return static_cast<nanoseconds>(ns_per_byte_ * static_cast<double>(bytes));
  }

  void handle(std::size_t number) {
    if (number < hosts_.size()) return take(number);
    std::uint64_t expirations = 0;
    if (read(timer_, &expirations, sizeof expirations) < 0 && errno != EAGAIN) fail("timer");
  }

  /// Reads packets of a host until it has no more, or its link has enough to send.
  void take(std::size_t number) {
    auto& sender = hosts_[number];
    while (sender.sends_until - now() < longest_backlog) {
      auto const size = read(sender.device, buffer_.data(), buffer_.size());
      if (size < 0 && errno == EAGAIN) return;
      if (size <= 0) fail("read");
      auto const bytes = static_cast<std::size_t>(size);
      sender.sends_until = std::max(sender.sends_until, now()) + transfer_time(bytes);
      forward(sender.sends_until, bytes);
    }
    sender.is_read = false;
    watch(EPOLL_CTL_MOD, sender.device, number, 0);
  }

  /// Only IPv4 packets between the hosts are forwarded.
  void forward(nanoseconds sent, std::size_t bytes) {
    constexpr std::size_t header = 20;
    if (bytes < header || (buffer_[0] & 0xf0) != 0x40) return;
    auto const to = static_cast<std::uint8_t>(buffer_[header - 1]) - std::size_t{1};
    if (to >= hosts_.size()) return;
    auto const end = buffer_.begin() + static_cast<std::ptrdiff_t>(bytes);
    travelling_.push({sent + delay_, to, {buffer_.begin(), end}});
  }

  /// Packets of several senders take a receiver's link in the order in which they reach it.
  void reach() {
    for (auto const time = now(); !travelling_.empty() && travelling_.top().time <= time; travelling_.pop()) {
      auto const& p = travelling_.top();
      auto& receiver = hosts_[p.to];
      if (receiver.receives_until - p.time > longest_queue_) continue;
      receiver.receives_until = std::max(p.time, receiver.receives_until + transfer_time(p.bytes.size()));
      receiver.arriving.push_back({receiver.receives_until, p.to, p.bytes});
    }
  }

  void deliver(std::size_t number) {
    auto& h = hosts_[number];
    auto const time = now();
    for (; !h.arriving.empty() && h.arriving.front().time <= time; h.arriving.pop_front()) {
      auto const& bytes = h.arriving.front().bytes;
      [[maybe_unused]] auto const written = write(h.device, bytes.data(), bytes.size());  // a full queue drops packets
    }
    if (!h.is_read && h.sends_until - time < longest_backlog / 2) {
      h.is_read = true;
      watch(EPOLL_CTL_MOD, h.device, number, EPOLLIN);
    }
  }

  /// The timer expires when a packet reaches a link or has arrived, or when a sender is to be read again.
  void set_timer() {
    auto next = std::numeric_limits<nanoseconds>::max();
    if (!travelling_.empty()) next = travelling_.top().time;
    for (auto const& h : hosts_) {
      if (!h.arriving.empty()) next = std::min(next, h.arriving.front().time);
      if (!h.is_read) next = std::min(next, h.sends_until - longest_backlog / 2);
    }
    itimerspec spec = {};
    if (next != std::numeric_limits<nanoseconds>::max()) spec.it_value = {next / 1'000'000'000, next % 1'000'000'000};
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &spec, nullptr);
  }

  double ns_per_byte_;
  nanoseconds delay_, longest_queue_;
  std::vector<host> hosts_;
  std::priority_queue<packet, std::vector<packet>, is_later> travelling_;
  int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  int timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  std::array<char, 65536> buffer_ = {};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: delay_switch MBIT_PER_S ROUND_TRIP_MS NAMESPACE...\n");
    return 2;
  }
  auto hosts = network(std::atof(argv[1]), std::atof(argv[2]), {argv + 3, argv + argc});
  std::printf("ready\n");
  std::fflush(stdout);
  hosts.run();
}
