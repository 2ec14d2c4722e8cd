// The paper's algorithms in the log domain, as published: forward-backward and one forward pass with expectations.
//
//   u_t(i,j)   = e_t(i,j) + s_t(j)                   local kernel; at a start mark s_t(j), the same for each i
//   α_t(j)     = ⊕_i u_t(i,j) + α_{t-1}(i)           a ⊕ b = ln(e^a + e^b)
//   β_{t-1}(i) = ⊕_j u_t(i,j) + β_t(j)
//   ln ∇_m Z   = ⊕_t ⊕_ij α_{t-1}(i) + u_t(i,j) + β_t(j) + ln f_m(i,j,x,t)          Algorithm 1
//
//   h_t,m(j)   = ⊕_i u_t(i,j) + h_{t-1,m}(i)  ⊕  ⊕_i u_t(i,j) + α_{t-1}(i) + ln f_m(i,j,x,t)
//   ln ∇_m Z   = ⊕_j h_T,m(j)                                                       Algorithm 2
//
// A start mark cuts the chain without a rule of its own: u_t does not depend on i there. Before the first position the
// chain is in one state (label 0 by convention), where the paper sums over a free y_0.
//
// Feature values may be negative, for which ln f has no meaning: h and ln ∇ are signed logarithms (l, σ), σ = -1, 0, +1,
// for σ · e^l. Scores are checked where they enter a recursion: none is +inf or not a number.
#pragma once

#include "arrays.hpp"
#include "simd.hpp"

namespace core {

// Scores of a block; those of edges [1, N · width] where all positions share them.
struct LogScores {
  Matrix<const double> state;  // [B, width]
  Matrix<const double> edge;   // [B or 1, N · width]
};

// σ · e^l
struct SignedLog {
  double log = -INFINITE;
  int8_t sign = 0;
};

// a ⊕ b = a + ln(1 + e^(b-a)), a the larger, so that nothing overflows
INLINE double log_add(double a, double b) {
  if (b == -INFINITE) return a;
  if (a == -INFINITE) return b;
  return a < b ? b + log1p(exp(a - b)) : a + log1p(exp(b - a));
}

// (a, σ) ⊕ (b, τ) = a + ln(1 ± e^(b-a)), a the larger, with its sign
INLINE SignedLog log_add(SignedLog a, SignedLog b) {
  if (b.sign == 0 || b.log == -INFINITE) return a;
  if (a.sign == 0 || a.log == -INFINITE) return b;
  if (a.log < b.log) {
    const SignedLog larger = b;
    b = a;
    a = larger;
  }
  if (a.sign == b.sign) return {a.log + log1p(exp(b.log - a.log)), a.sign};
  if (a.log == b.log) return {};
  return {a.log + log1p(-exp(b.log - a.log)), a.sign};
}

INLINE void log_add_to(double& log, int8_t& sign, double term, int8_t term_sign) {
  const SignedLog sum = log_add(SignedLog{log, sign}, SignedLog{term, term_sign});
  log = sum.log;
  sign = sum.sign;
}

// ⊕_k z(k)
inline double log_total(Span<const double> z) {
  double total = -INFINITE;
  for (Int k = 0; k < z.size; ++k) total = log_add(total, z[k]);
  return total;
}

// out[m] = ∇_m Z / Z = ± exp(ln |∇_m Z| - ln Z), where ln ∇_m Z = ⊕_k logs[m, k]
inline void quotients(Matrix<const double> logs, Matrix<const int8_t> signs, double log_z, Span<double> out) {
  for (Int m = 0; m < logs.rows; ++m) {
    SignedLog total;
    for (Int k = 0; k < logs.columns; ++k) total = log_add(total, {logs[m][k], signs[m][k]});
    out[m] = total.sign == 0 ? 0.0 : total.sign * exp(total.log - log_z);
  }
}

// u(i,j) = e_t(i,j) + s_t(j)
INLINE void local_kernel(const Block& block, const LogScores& scores, Int t, Int n_labels, double* u) {
  const Int width = scores.state.columns;
  const double *state = scores.state[t], *edge = scores.edge[scores.edge.rows > 1 ? t : 0];
  for (Int i = 0; i < n_labels; ++i) {
    for (Int j = 0; j < n_labels; ++j) u[i * n_labels + j] = (block.starts[t] ? 0.0 : edge[i * width + j]) + state[j];
  }
}

inline void local_kernels(const Block& block, const LogScores& scores, Cube<double> u) {
  for (Int t = 0; t < block.starts.size; ++t) local_kernel(block, scores, t, u.rows, u(t, 0));
}

// take(id, ln |f|, σ) for each entry of a position whose value f is not zero
template <class Take>
INLINE void each_value(Span<const int64_t> offsets, Span<const int32_t> ids, Span<const double> values, Int t,
                       Take take) {
  for (Int k = offsets[t]; k < offsets[t + 1]; ++k) {
    const double f = values.empty() ? 1.0 : values[k];
    if (f != 0.0) take(ids[k], log(f < 0.0 ? -f : f), int8_t(f < 0.0 ? -1 : 1));
  }
}

// take(m, i, j, ln |f|, σ) for each f_m(i,j,x,t) that is not zero: m belongs to an attribute of t and to j; to the
// transition (i,j); or to an edge attribute of t and to (i,j).
template <class Take>
INLINE void each_active(const Block& block, const Features& features, Int t, Take take) {
  const Int n = features.n_labels, first = features.label.size;
  const auto take_pairs = [&](Int row, double ln_f, int8_t sign) INLINE_LAMBDA {
    for (Int pair = 0; pair < n * n; ++pair) take(first + row * n * n + pair, pair / n, pair % n, ln_f, sign);
  };
  each_value(block.offsets, block.ids, block.values, t, [&](Int id, double ln_f, int8_t sign) INLINE_LAMBDA {
    for (Int i = 0; i < n; ++i) {
      for (Int m = features.begin[id]; m < features.begin[id + 1]; ++m) take(m, i, features.label[m], ln_f, sign);
    }
  });
  if (block.starts[t]) return;
  take_pairs(0, 0.0, 1);
  if (block.edge_offsets.empty()) return;
  each_value(block.edge_offsets, block.edge_ids, block.edge_values, t,
             [&](Int id, double ln_f, int8_t sign) INLINE_LAMBDA { take_pairs(1 + id, ln_f, sign); });
}

// out(j) = ⊕_i u(i,j) + α(i); ZERO where no label is possible, NOT_FINITE for a bad score.
INLINE Status forward_step(const double* u, const double* alpha, Int n_labels, double* out) {
  for (Int k = 0; k < n_labels * n_labels; ++k) {
    if (!(u[k] < INFINITE)) return NOT_FINITE;
  }
  for (Int j = 0; j < n_labels; ++j) out[j] = -INFINITE;
  for (Int i = 0; i < n_labels; ++i) {
    for (Int j = 0; j < n_labels; ++j) out[j] = log_add(out[j], u[i * n_labels + j] + alpha[i]);
  }
  double peak = -INFINITE;
  for (Int j = 0; j < n_labels; ++j) {
    if (!(out[j] < INFINITE)) return NOT_FINITE;
    if (out[j] > peak) peak = out[j];
  }
  return peak > -INFINITE ? OK : ZERO;
}

// Algorithm 1, first half: u[t] = u_t and alpha[t] = α_t, from the α before the block.
inline Status kernels_and_forward(const Block& block, const LogScores& scores, Cube<double> u, const double* entry,
                                  Matrix<double> alpha, Int& fault) {
  const double* previous = entry;
  for (fault = 0; fault < alpha.rows; ++fault) {
    local_kernel(block, scores, fault, alpha.columns, u(fault, 0));
    const Status status = forward_step(u(fault, 0), previous, alpha.columns, alpha[fault]);
    if (status != OK) return status;
    previous = alpha[fault];
  }
  return OK;
}

// Algorithm 1: β_{t-1}(i) = ⊕_j u_t(i,j) + β_t(j); beta: [B + 1, N], its last row given.
inline void backward_vectors(Cube<const double> u, Matrix<double> beta) {
  for (Int t = u.planes - 1; t >= 0; --t) {
    for (Int i = 0; i < u.rows; ++i) {
      double total = -INFINITE;
      for (Int j = 0; j < u.rows; ++j) total = log_add(total, u(t, i)[j] + beta[t + 1][j]);
      beta[t][i] = total;
    }
  }
}

// Algorithm 1, termination: ln ∇_m ⊕= α_{t-1}(i) + u_t(i,j) + β_t(j) + ln f_m(i,j,x,t)
inline void terminate(const Block& block, Cube<const double> u, const double* entry, Matrix<const double> alpha,
                      Matrix<const double> beta, const Features& features, Span<double> gradient, Span<int8_t> sign) {
  for (Int t = 0; t < block.starts.size; ++t) {
    const double* previous = t > 0 ? alpha[t - 1] : entry;
    each_active(block, features, t, [&](Int m, Int i, Int j, double ln_f, int8_t sign_f) INLINE_LAMBDA {
      const double v = previous[i] + u(t, i)[j] + beta[t + 1][j];
      log_add_to(gradient[m], sign[m], v + ln_f, sign_f);
    });
  }
}

// ĥ(j) = ⊕_i u(i,j) + h(i), in place; previous: [N], room for h.
INLINE void carry(const double* u, Int n_labels, double* log, int8_t* sign, SignedLog* previous) {
  for (Int i = 0; i < n_labels; ++i) {
    previous[i] = {log[i], sign[i]};
    log[i] = -INFINITE;
    sign[i] = 0;
  }
  for (Int i = 0; i < n_labels; ++i) {
    for (Int j = 0; j < n_labels; ++j) {
      log_add_to(log[j], sign[j], u[i * n_labels + j] + previous[i].log, previous[i].sign);
    }
  }
}

// Algorithm 2 over one block: z, h and sign are α and the signed h before it, and become those of its last position.
//
// z: [N]. h, sign: [M, 1, N]. With [M, N, N] it is the older forward-only algorithm: each label i after which a feature
// was seen has a recursion of its own, and they are summed at the very end; that their sum obeys the same recursion is
// the step from there to here.
inline Status carry_expectations(const Block& block, const LogScores& scores, const Features& features, Span<double> z,
                                 Cube<double> h, Cube<int8_t> sign, Int& fault) {
  const Int n = features.n_labels;
  const Room room(n * n + 3 * n);
  if (room.failed()) return NO_MEMORY;
  double *const u = room.data(), *const z_hat = u + n * n;
  SignedLog* const previous = reinterpret_cast<SignedLog*>(z_hat + n);
  for (fault = 0; fault < block.starts.size; ++fault) {
    local_kernel(block, scores, fault, n, u);
    const Status status = forward_step(u, z.data, n, z_hat);  // ẑ(j) = ⊕_i u(i,j) + z(i)
    if (status != OK) return status;
    for (Int row = 0; row < h.planes * h.rows; ++row) carry(u, n, h(0, row), sign(0, row), previous);
    each_active(block, features, fault, [&](Int m, Int i, Int j, double ln_f, int8_t sign_f) INLINE_LAMBDA {
      const Int place = h.rows > 1 ? i : 0;
      const double gamma = u[i * n + j] + z[i];
      log_add_to(h(m, place)[j], sign(m, place)[j], gamma + ln_f, sign_f);  // ĥ_m(j) ⊕= γ + ln f_m
    });
    for (Int j = 0; j < n; ++j) z[j] = z_hat[j];
  }
  return OK;
}

}  // namespace core
