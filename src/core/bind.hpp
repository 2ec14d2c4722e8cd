// How Python's arrays and named tuples become the spans and records of `arrays.hpp`.
//
// An array is taken as it is, by the buffer protocol, or refused: nothing is converted or copied. The caller's own
// reference keeps it alive while a kernel runs without the interpreter's lock.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "arrays.hpp"

namespace core {

// Without the interpreter's lock, while a kernel runs; it is taken again at the end.
//
// A daemon thread that asks for the lock once the interpreter ends is ended there, in the middle of C++, which aborts
// the process. So the end waits for kernels that run (`wait_for_kernels`, at exit), and those after it keep the lock.
class Unlocked {
 public:
  Unlocked() : state_(closing ? nullptr : (++running, PyEval_SaveThread())) {}
  ~Unlocked() {
    if (!state_) return;
    PyEval_RestoreThread(state_);
    --running;
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  static void wait_for_kernels() {
    closing = true;
    const nanobind::gil_scoped_release others;
    while (running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static void forget_kernels() { running = 0; }  // in a forked child, which has none of their threads

 private:
  static inline std::atomic<bool> closing{false};
  static inline std::atomic<int> running{0};
  PyThreadState* state_;
};

template <class T>
struct Kind;
#define CORE_KIND(type, letters, numpy)                \
  template <>                                          \
  struct Kind<type> {                                  \
    static constexpr const char* formats = letters;    \
    static constexpr auto name = nanobind::detail::const_name(numpy); \
  };
CORE_KIND(double, "d", "float64")
CORE_KIND(float, "f", "float32")
CORE_KIND(bool, "?", "bool_")
CORE_KIND(int8_t, "b", "int8")
CORE_KIND(uint8_t, "B", "uint8")
CORE_KIND(uint16_t, "H", "uint16")
CORE_KIND(int32_t, "il", "int32")
CORE_KIND(uint32_t, "IL", "uint32")
CORE_KIND(int64_t, "lq", "int64")
CORE_KIND(uint64_t, "LQ", "uint64")
#undef CORE_KIND

// Read a contiguous array of D dimensions; whether it is one, of this type.
template <class T, int D>
bool read_array(PyObject* object, T** data, Int* shape) {
  using Number = std::remove_const_t<T>;
  Py_buffer view;
  const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (std::is_const_v<T> ? 0 : PyBUF_WRITABLE);
  if (PyObject_GetBuffer(object, &view, flags) != 0) {
    PyErr_Clear();
    return false;
  }
  const char* format = view.format ? view.format : "B";
  if (*format == '=' || *format == '@' || *format == '<') ++format;
  bool fits = view.ndim == D && view.itemsize == sizeof(Number) && format[0] && !format[1];
  bool known = false;
  for (const char* letter = Kind<Number>::formats; *letter; ++letter) known = known || *letter == *format;
  fits = fits && known;
  for (int d = 0; fits && d < D; ++d) shape[d] = view.shape[d];
  *data = static_cast<T*>(view.buf);
  PyBuffer_Release(&view);
  return fits;
}

template <class T>
bool read(PyObject* object, Span<T>& out) {
  return read_array<T, 1>(object, &out.data, &out.size);
}
template <class T>
bool read(PyObject* object, Matrix<T>& out) {
  Int shape[2];
  if (!read_array<T, 2>(object, &out.data, shape)) return false;
  out.rows = shape[0];
  out.columns = shape[1];
  return true;
}
template <class T>
bool read(PyObject* object, Cube<T>& out) {
  Int shape[3];
  if (!read_array<T, 3>(object, &out.data, shape)) return false;
  out.planes = shape[0];
  out.rows = shape[1];
  out.columns = shape[2];
  return true;
}
inline bool read(PyObject* object, bool& out) {
  out = object == Py_True;
  return object == Py_True || object == Py_False;
}
inline bool read(PyObject* object, double& out) {
  out = PyFloat_AsDouble(object);
  if (out != -1.0 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}
inline bool read(PyObject* object, Int& out) {
  out = PyLong_AsLongLong(object);
  if (out != -1 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

// Read the fields of a tuple, in their order.
template <class... Fields>
bool read_tuple(PyObject* object, Fields&... fields) {
  if (!PyTuple_Check(object) || PyTuple_Size(object) != sizeof...(Fields)) return false;
  Py_ssize_t k = 0;
  return (read(PyTuple_GetItem(object, k++), fields) && ...);
}
inline bool read(PyObject* object, Block& b) {
  return read_tuple(object, b.labels, b.starts, b.offsets, b.ids, b.values, b.edge_offsets, b.edge_ids, b.edge_values,
                    b.weights);
}
inline bool read(PyObject* object, RowLayout& r) { return read_tuple(object, r.dense, r.begin, r.label, r.width); }
template <class T>
bool read(PyObject* object, Slots<T>& s) {
  return read_tuple(object, s.dense, s.sparse, s.transition, s.edge, s.hot);
}
template <class I, class R, class D>
bool read(PyObject* object, RowsOf<I, R, D>& r) {
  return read_tuple(object, r.begin, r.turn, r.row, r.value);
}
inline bool read(PyObject* object, Features& f) { return read_tuple(object, f.begin, f.label, f.n_labels); }
inline bool read(PyObject* object, Lattice& l) {
  return read_tuple(object, l.starts, l.alpha, l.predicted, l.edge, l.entry, l.labels, l.weights, l.wide, l.n_labels);
}

}  // namespace core

namespace nanobind::detail {

template <class T>
struct CoreCaster {
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    using core::read;  // or that of a record declared beside its functions
    return read(source.ptr(), value);
  }
  template <class U>
  using Cast = T&;
  template <class U>
  static constexpr bool can_cast() {
    return true;
  }
  explicit operator T&() { return value; }
  T value;
};

#define CORE_ARRAY(record)                                                                                     \
  template <class T>                                                                                           \
  struct type_caster<core::record<T>> : CoreCaster<core::record<T>> {                                          \
    static constexpr auto Name = const_name("numpy.typing.NDArray[numpy.") +                                   \
                                 core::Kind<std::remove_const_t<T>>::name + const_name("]");                   \
  };
CORE_ARRAY(Span)
CORE_ARRAY(Matrix)
CORE_ARRAY(Cube)
#undef CORE_ARRAY

#define CORE_RECORD(record, python)                                   \
  template <>                                                         \
  struct type_caster<core::record> : CoreCaster<core::record> {       \
    static constexpr auto Name = const_name(python);                  \
  };
CORE_RECORD(Block, "chainfold.chain.block.Block")
CORE_RECORD(RowLayout, "chainfold.core.slots.RowLayout")
CORE_RECORD(Weights, "chainfold.core.slots.Slots")
CORE_RECORD(Counts, "chainfold.core.slots.Slots")
CORE_RECORD(BlockRows, "chainfold.core.slots.BlockRows")
CORE_RECORD(BlockRowsOut, "chainfold.core.slots.BlockRows")
CORE_RECORD(Features, "chainfold.core.slots.FeatureIndex")
CORE_RECORD(Lattice, "chainfold.core.slots.Lattice")

}  // namespace nanobind::detail
