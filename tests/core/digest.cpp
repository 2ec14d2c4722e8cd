// Results of the core on fixed numbers, as one digest: to be compared between processors.
#include <cstdio>
#include <vector>

#include "../../src/core/emissions.hpp"
#include "../../src/core/viterbi.hpp"

using namespace core;

static uint64_t state = 1, digest = 14695981039346656037u;

static double random_number() {  // in (-1, 1), from splitmix64
  uint64_t x = state += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return double(int64_t(x ^ (x >> 31))) * 0x1p-63;
}

static void take(const double* numbers, Int count) {
  for (Int k = 0; k < count; ++k) {
    digest = (digest ^ bits_as<uint64_t>(numbers[k])) * 1099511628211u;
  }
}

static void numbers() {
  for (int k = 0; k < 20000; ++k) {
    const double x = 700.0 * random_number(), results[] = {exp(x), log(exp(x)), log1p(0.9 * random_number())};
    take(results, 3);
  }
}

static void chain(Int n, Int width, Int size) {
  std::vector<double> emissions(size * n), start(n), end(n), edge(n * width), edge_t(n * width), alpha(size * width);
  for (double& x : emissions) x = 3.0 * random_number();
  for (Int i = 0; i < n; ++i) {
    for (Int j = 0; j < n; ++j) edge[i * width + j] = edge_t[j * width + i] = exp(random_number());
  }
  std::vector<int64_t> rows(size), cuts{0, size / 3, size};
  std::vector<uint8_t> starts(size);
  for (Int t = 0; t < size; ++t) rows[t] = t;
  starts[0] = starts[size / 3] = 1;
  const double shift = 0.0, factor[] = {1.0, -0.5};
  const Span<const bool> marks{reinterpret_cast<const bool*>(starts.data()), size};
  const Emissions<double> source{{emissions.data(), size, n}, {start.data(), n}, {end.data(), n}, {}, {rows.data(), size}, marks};
  const Moves moves{{edge.data(), 1, n * width}, {edge_t.data(), n, width}, {&shift, 1}, false};
  double log_z[2];
  int8_t status[2];
  std::vector<double> gradient(size * n), pairs(n * width), ends(2 * width), scores(size * width);
  with_shape(width, [&](auto shape) {
    forward_parts(shape, source, moves, {cuts.data(), 3}, {}, 0, 2, alpha.data(), log_z, status);
    backward_parts(shape, source, moves, {cuts.data(), 3}, {}, 0, 2, alpha.data(), factor, {gradient.data(), size, n}, pairs.data(),
                   {ends.data(), 2, width});
    source.score(0, size, width, scores.data());
    std::vector<uint16_t> back(size * n);
    std::vector<double> delta(width);
    int64_t finals[2];
    double best[2];
    std::vector<uint8_t> last(size);
    last[size / 3 - 1] = last[size - 1] = 1;
    TwoSum total;
    Int fault = 0;
    viterbi(shape, marks, {reinterpret_cast<const bool*>(last.data()), size}, scores.data(), moves.edge, delta.data(), total,
            Matrix<uint16_t>{back.data(), size, n}, finals, best, fault);
    take(best, 2);
    for (const uint16_t label : back) digest = (digest ^ label) * 1099511628211u;
    return 0;
  });
  take(log_z, 2);
  take(gradient.data(), size * n);
  take(pairs.data(), n * width);
  take(ends.data(), 2 * width);
}

int main() {
  numbers();
  const Int widths[][2] = {{2, 4}, {4, 4}, {5, 8}, {9, 16}, {22, 24}, {33, 40}, {64, 64}, {100, 112}};
  for (const auto& w : widths) chain(w[0], w[1], 300);
  std::printf("%016llx\n", static_cast<unsigned long long>(digest));
}
