// Dense scores of positions: forward and back over sequences, scores and counts of tags.
#include "bind.hpp"
#include "emissions.hpp"

namespace nb = nanobind;

namespace core {

template <class T>
bool read(PyObject* object, Emissions<T>& e) {
  return read_tuple(object, e.scores, e.start, e.end, e.allowed, e.rows, e.starts);
}
inline bool read(PyObject* object, Moves& m) { return read_tuple(object, m.edge, m.edge_t, m.shift, m.watch); }

}  // namespace core

namespace nanobind::detail {
template <class T>
struct type_caster<core::Emissions<T>> : CoreCaster<core::Emissions<T>> {
  static constexpr auto Name = const_name("chainfold.core.slots.Emissions");
};
template <>
struct type_caster<core::Moves> : CoreCaster<core::Moves> {
  static constexpr auto Name = const_name("chainfold.core.slots.Moves");
};
}  // namespace nanobind::detail

namespace core {

namespace {

template <class T>
void emission_scores(const Emissions<T>& emissions, Int low, Int high, Matrix<double> out) {
  emissions.score(low, high, out.columns, out.data);
}

template <class T>
void emission_edges(Cube<const T> edges, Span<const int64_t> rows, Span<const double> transitions, Matrix<double> out) {
  score_edges(edges, rows, transitions.data, out);
}

template <class T>
int forward_parts_of(const Emissions<T>& emissions, const Moves& moves, Span<const int64_t> cuts,
                     Matrix<const double> pasts, Int low, Int high, Matrix<double> alpha, Span<double> log_z,
                     Span<int8_t> status) {
  return with_shape(moves.width(), [&](auto shape) -> int {
    return forward_parts(shape, emissions, moves, cuts, pasts, low, high, alpha.data, log_z.data, status.data);
  });
}

template <class T>
int backward_parts_of(const Emissions<T>& emissions, const Moves& moves, Span<const int64_t> cuts,
                      Matrix<const double> futures, Int low, Int high, Matrix<double> alpha, Span<const double> factor,
                      Matrix<T> gradient, Matrix<double> pairs, Matrix<double> ends) {
  return with_shape(moves.width(), [&](auto shape) -> int {
    return backward_parts(shape, emissions, moves, cuts, futures, low, high, alpha.data, factor.data, gradient,
                          pairs.data, ends);
  });
}

template <class T>
int backward_emissions(const Emissions<T>& emissions, const Lattice& lattice, Int low, Span<double> gamma, double factor,
                       Matrix<T> gradient, Matrix<double> pairs, Matrix<double> ends, Cube<T> edges) {
  const Room joint(pairs.rows * pairs.columns);
  if (joint.failed()) return NO_MEMORY;
  const Span<const int64_t> rows{emissions.rows.data + low, lattice.size()};
  const EmissionSink<T> sink{gradient, rows, lattice.starts, factor, ends[0], pairs.data, edges};
  backward_general(lattice, gamma.data, pairs.columns, joint.data(), sink);
  return OK;
}

template <class T>
void tag_scores(const Emissions<T>& emissions, Span<const int64_t> cuts, Matrix<const double> transitions,
                Cube<const T> edges, Span<const int64_t> tags, Int low, Int high, Span<double> score) {
  const Int width = transitions.columns / emissions.start.size;
  score_tags(emissions, cuts, transitions.data, width, edges, tags.data, low, high, score.data);
}

template <class T>
void tag_counts(const Emissions<T>& emissions, Span<const int64_t> cuts, Span<const int64_t> tags, Int low, Int high,
                Span<const double> factor, Matrix<T> gradient, Matrix<double> pairs, Matrix<double> ends, Cube<T> edges) {
  count_tags(emissions, cuts, tags.data, low, high, factor.data, gradient, pairs, ends, edges);
}

template <class T>
void bind(nb::module_& m) {
  using Free = nb::call_guard<Unlocked>;
  using nb::arg;
  m.def("emission_scores", &emission_scores<T>, arg("emissions"), arg("low"), arg("high"), arg("out"), Free(),
        "State scores of positions low … high-1 of dense scores.");
  m.def("emission_edges", &emission_edges<T>, arg("edges"), arg("rows"), arg("transitions"), arg("out"), Free(),
        "Edge scores of positions that have matrices of their own.");
  m.def("forward_parts", &forward_parts_of<T>, arg("emissions"), arg("moves"), arg("cuts"), arg("pasts"), arg("low"),
        arg("high"), arg("alpha"), arg("log_z"), arg("status"), Free(),
        "Forward vectors of parts low … high-1 of dense scores, and what each adds to log Z.");
  m.def("backward_parts", &backward_parts_of<T>, arg("emissions"), arg("moves"), arg("cuts"), arg("futures"),
        arg("low"), arg("high"), arg("alpha"), arg("factor"), arg("gradient"), arg("pairs"), arg("ends"), Free(),
        "Add the posteriors of parts low … high-1, times the factor of each, to the gradient of dense scores.");
  m.def("backward_emissions", &backward_emissions<T>, arg("emissions"), arg("lattice"), arg("low"), arg("gamma"),
        arg("factor"), arg("gradient"), arg("pairs"), arg("ends"), arg("edges"), Free(),
        "Add the posteriors of any lattice, times a factor, to the gradient of dense scores.");
  m.def("score_tags", &tag_scores<T>, arg("emissions"), arg("cuts"), arg("transitions"), arg("edges"), arg("tags"),
        arg("low"), arg("high"), arg("score"), Free(), "The scores of the tags of parts low … high-1.");
  m.def("count_tags", &tag_counts<T>, arg("emissions"), arg("cuts"), arg("tags"), arg("low"), arg("high"),
        arg("factor"), arg("gradient"), arg("pairs"), arg("ends"), arg("edges"), Free(),
        "Add the counts of the tags of parts low … high-1, times the factor of each.");
}

}  // namespace

void bind_emissions(nb::module_& m) {
  bind<float>(m);
  bind<double>(m);
}

}  // namespace core
