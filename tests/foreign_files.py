"""Model files of other programs, written byte by byte from their descriptions, without chainfold's own writers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

Named = Mapping[str, Sequence[float]]  # the weights of an attribute, by label or by pair of labels
U32 = 0xFFFFFFFF


# CRFsuite


def lookup3(key: bytes) -> int:
    """Bob Jenkins' hash, one key and one step at a time."""

    def turned(word: int, bits: int) -> int:
        return ((word << bits) | (word >> (32 - bits))) & U32

    a = b = c = (0xDEADBEEF + len(key)) & U32
    while len(key) > 12:
        x, y, z = _triple(key[:12])
        a, b, c = (a + x) & U32, (b + y) & U32, (c + z) & U32
        a, c = ((a - c) & U32) ^ turned(c, 4), (c + b) & U32
        b, a = ((b - a) & U32) ^ turned(a, 6), (a + c) & U32
        c, b = ((c - b) & U32) ^ turned(b, 8), (b + a) & U32
        a, c = ((a - c) & U32) ^ turned(c, 16), (c + b) & U32
        b, a = ((b - a) & U32) ^ turned(a, 19), (a + c) & U32
        c, b = ((c - b) & U32) ^ turned(b, 4), (b + a) & U32
        key = key[12:]
    x, y, z = _triple(key)
    a, b, c = (a + x) & U32, (b + y) & U32, (c + z) & U32
    c = ((c ^ b) - turned(b, 14)) & U32
    a = ((a ^ c) - turned(c, 11)) & U32
    b = ((b ^ a) - turned(a, 25)) & U32
    c = ((c ^ b) - turned(b, 16)) & U32
    a = ((a ^ c) - turned(c, 4)) & U32
    b = ((b ^ a) - turned(a, 14)) & U32
    return ((c ^ b) - turned(b, 24)) & U32


def _triple(key: bytes) -> tuple[int, int, int]:
    first, second, third = (int.from_bytes(key[k : k + 4], "little") for k in (0, 4, 8))
    return first, second, third


def cqdb(names: Sequence[str]) -> bytes:
    """The names by number, and the numbers by hash."""
    at = 24 + 8 * 256
    records, places = b"", []
    tables: list[list[tuple[int, int]]] = [[] for _ in range(256)]
    for number, name in enumerate(names):
        key = name.encode() + b"\0"
        places.append(at + len(records))
        tables[lookup3(key) % 256].append((lookup3(key), places[-1]))
        records += struct.pack("<II", number, len(key)) + key
    at += len(records)
    references = buckets = b""
    for table in tables:
        slots = [(0, 0)] * (2 * len(table))
        for value, place in table:
            slot = (value >> 8) % len(slots)
            while slots[slot] != (0, 0):
                slot = (slot + 1) % len(slots)
            slots[slot] = (value, place)
        references += struct.pack("<II", at + len(buckets) if table else 0, len(slots))
        buckets += b"".join(struct.pack("<II", *slot) for slot in slots)
    backward = b"".join(struct.pack("<I", place) for place in places)
    begin = at + len(buckets)
    head = struct.pack("<4s5I", b"CQDB", begin + len(backward), 0, 0x62445371, len(names), begin if names else 0)
    return head + references + records + buckets + backward


def crfsuite_file(
    labels: Sequence[str],
    attributes: Sequence[str],
    state: Mapping[tuple[str, str], float],
    transitions: Mapping[tuple[str, str], float],
) -> bytes:
    """Weights by (attribute, label), and by (label, label)."""
    records, sources = b"", []
    for kind, names, weights in ((0, attributes, state), (1, labels, transitions)):
        for (source, target), weight in weights.items():
            sources.append((kind, names.index(source)))
            records += struct.pack("<IIId", kind, names.index(source), labels.index(target), weight)
    parts = [struct.pack("<4sII", b"FEAT", 12 + len(records), len(sources)) + records, cqdb(labels), cqdb(attributes)]
    offsets = [48]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    parts.append(bytes(-offsets[-1] % 4))
    offsets[-1] += len(parts[-1])
    for chunk, kind, count in ((b"LFRF", 1, len(labels) + 2), (b"AFRF", 0, len(attributes))):
        body, places = b"", []
        for number in range(count):
            mine = [k for k, source in enumerate(sources) if source == (kind, number)]
            places.append(offsets[-1] + 12 + 4 * count + len(body))
            body += struct.pack(f"<{1 + len(mine)}I", len(mine), *mine)
        parts.append(struct.pack(f"<4sII{count}I", chunk, 12 + 4 * count + len(body), count, *places) + body)
        offsets.append(offsets[-1] + len(parts[-1]))
    numbers = 100, 0, len(labels), len(attributes), *offsets[:5]
    return struct.pack("<4sI4s9I", b"lCRF", offsets[5], b"FOMC", *numbers) + b"".join(parts)


# Wapiti


def netstring(text: str) -> bytes:
    return f"{len(text.encode())}:{text},\n".encode()


def wapiti_file(labels: Sequence[str], patterns: Sequence[str], observations: Named, head: str = "#mdl#2#") -> bytes:
    """Each observation with its weights: one for each label, one for each pair, or first these and then those."""
    weights = [weight for row in observations.values() for weight in row]
    lines = [f"{index}={weight.hex()}\n" for index, weight in enumerate(weights) if weight]
    text = f"{head}{len(lines)}\n#rdr#{len(patterns)}/3/0\n".encode() + b"".join(map(netstring, patterns))
    for names in (labels, list(observations)):
        text += f"#qrk#{len(names)}\n".encode() + b"".join(map(netstring, names))
    return text + "".join(lines).encode()


# CRF++


def crfpp_text(
    labels: Sequence[str], patterns: Sequence[str], keys: Named, columns: int = 2, factor: str = "1"
) -> bytes:
    weights = [weight for row in keys.values() for weight in row]
    text = f"version: 100\ncost-factor: {factor}\nmaxid: {len(weights)}\nxsize: {columns}\n\n"
    text += "".join(f"{label}\n" for label in labels) + "\n" + "".join(f"{line}\n" for line in patterns) + "\n"
    at = 0
    for key, row in keys.items():
        text += f"{at} {key}\n"
        at += len(row)
    return (text + "\n" + "".join(f"{weight:.16f}\n" for weight in weights)).encode()


def crfpp_binary(
    labels: Sequence[str], patterns: Sequence[str], keys: Named, columns: int = 2, factor: float = 1.0
) -> bytes:
    at, ids = 0, {}
    for key, row in keys.items():
        ids[key.encode()] = at
        at += len(row)
    units = trie(ids)
    names, lines = (b"".join(text.encode() + b"\0" for text in texts) for texts in (labels, patterns))
    lines += bytes(-(len(names) + len(lines)) % 4)
    head = struct.pack("<IidIII", 100, 0, factor, at, columns, len(units))
    head += struct.pack("<I", len(names)) + names + struct.pack("<I", len(lines)) + lines
    return head + units + b"".join(struct.pack("<f", weight) for row in keys.values() for weight in row)


def trie(ids: Mapping[bytes, int]) -> bytes:
    """A double array: the children of a node are put at the first base where all of them have room."""
    base, check = {0: 1}, {}
    bases = {1}

    def fill(place: int, prefix: bytes) -> None:
        codes = sorted({0 if key == prefix else key[len(prefix)] + 1 for key in ids if key.startswith(prefix)})
        own = base[place]
        for code in codes:
            check[own + code] = own
        for code in codes:
            child = own + code
            if code == 0:
                base[child] = -ids[prefix] - 1
                continue
            longer = prefix + bytes([code - 1])
            inner = {0 if key == longer else key[len(longer)] + 1 for key in ids if key.startswith(longer)}
            candidate = 1
            while candidate in bases or any(candidate + other in check for other in inner):
                candidate += 1
            bases.add(candidate)
            base[child] = candidate
            for other in inner:
                check[candidate + other] = candidate
            fill(child, longer)

    fill(0, b"")
    size = max([0, *check]) + 257
    return b"".join(struct.pack("<iI", base.get(place, 0), check.get(place, 0)) for place in range(size))
