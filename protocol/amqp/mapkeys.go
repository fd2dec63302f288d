package amqp

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
)

// Duplicate keys are refused (reliability S17). Comparing all pairs of keys is fastest for the maps
// that clients send. For a hostile map of thousands of keys it would be quadratic, so larger maps
// are sorted by a seeded hash.
const fewKeys = 16

// mapKey is a key by its value: the narrow and the wide encoding of a value are the same key, and
// values of different AMQP types are different keys.
type mapKey struct {
	kind    byte   // the widest constructor of the type
	number  uint64 // of an integer or boolean
	content []byte // of any other type
}

func (k mapKey) equal(o mapKey) bool {
	return k.kind == o.kind && k.number == o.number && bytes.Equal(k.content, o.content)
}

// keyOf returns the key at the start of b, a value that skipKey has passed.
func keyOf(b []byte) mapKey {
	switch code := b[0]; code {
	case CodeTrue, CodeFalse, CodeBool:
		v, _ := RawBool(b)
		if v {
			return mapKey{kind: CodeBool, number: 1}
		}
		return mapKey{kind: CodeBool}
	case CodeUint0, CodeSmallUint, CodeUint:
		v, _ := RawInt(b)
		return mapKey{kind: CodeUint, number: uint64(v)}
	case CodeUlong0, CodeSmallUlong:
		v, _ := RawInt(b)
		return mapKey{kind: CodeUlong, number: uint64(v)}
	case CodeUlong:
		return mapKey{kind: CodeUlong, number: binary.BigEndian.Uint64(b[1:])}
	case CodeSmallInt, CodeInt:
		v, _ := RawInt(b)
		return mapKey{kind: CodeInt, number: uint64(v)}
	case CodeSmallLong, CodeLong:
		v, _ := RawInt(b)
		return mapKey{kind: CodeLong, number: uint64(v)}
	case CodeBin8, CodeBin32, CodeStr8, CodeStr32, CodeSym8, CodeSym32:
		content, _ := rawContent(b)
		return mapKey{kind: code | 0x10, content: content}
	default:
		return mapKey{kind: code, content: b[1:plainLen(b)]}
	}
}

// uniqueKeys reports whether the pairs in b, which skip has passed, have no duplicate key.
func uniqueKeys(b []byte, pairs int) bool {
	switch {
	case pairs < 2:
		return true
	case pairs <= fewKeys:
		return fewUnique(b, pairs)
	}
	return manyUnique(b, pairs)
}

func fewUnique(b []byte, pairs int) bool {
	var seen [fewKeys]mapKey
	for i := range pairs {
		k := keyOf(b)
		for _, s := range seen[:i] {
			if k.equal(s) {
				return false
			}
		}
		seen[i] = k
		b = b[plainLen(b):]
		b = b[RawSize(b):]
	}
	return true
}

// hashedKey is a key's hash and its place in the map.
type hashedKey struct {
	hash uint64
	at   int
}

var (
	keySeed   = maphash.MakeSeed()
	keyHashes = sync.Pool{New: func() any { return new([]hashedKey) }}
)

func manyUnique(b []byte, pairs int) bool {
	kept := keyHashes.Get().(*[]hashedKey)
	defer keyHashes.Put(kept)
	hashes := slices.Grow((*kept)[:0], pairs)
	for at := 0; at < len(b); {
		k := keyOf(b[at:])
		hashes = append(hashes, hashedKey{k.hash(), at})
		at += plainLen(b[at:])
		at += RawSize(b[at:])
	}
	*kept = hashes
	slices.SortFunc(hashes, func(x, y hashedKey) int { return cmp.Compare(x.hash, y.hash) })
	for i := range hashes {
		for j := i + 1; j < len(hashes) && hashes[j].hash == hashes[i].hash; j++ {
			if keyOf(b[hashes[i].at:]).equal(keyOf(b[hashes[j].at:])) {
				return false
			}
		}
	}
	return true
}

func (k mapKey) hash() uint64 {
	if k.content != nil {
		return maphash.Bytes(keySeed, k.content) + uint64(k.kind)
	}
	var b [9]byte
	b[0] = k.kind
	binary.BigEndian.PutUint64(b[1:], k.number)
	return maphash.Bytes(keySeed, b[:])
}
