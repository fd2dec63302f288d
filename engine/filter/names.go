package filter

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Names of properties are compared without regard to case (semantics.md 15.4), as strings.EqualFold
// does it. To find one among many, each has a hash that is the same for all its spellings.

// fold returns the least of the characters that r equals without regard to case. For an ASCII
// letter that is the capital.
func fold(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

// hashName is FNV-1a over the folded name.
func hashName(name string) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c >= utf8.RuneSelf {
			for _, r := range name[i:] {
				h = (h ^ uint64(fold(r))) * prime
			}
			return h
		}
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		h = (h ^ uint64(c)) * prime
	}
	return h
}

// appendFolded appends the folded name: the same bytes for all spellings, for use as a map key.
func appendFolded(dst []byte, name string) []byte {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c >= utf8.RuneSelf {
			for _, r := range name[i:] {
				dst = utf8.AppendRune(dst, fold(r))
			}
			return dst
		}
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// view finds the application properties of one message by name. If names differ only in case the
// first property counts.
type view struct {
	m      *Message
	ready  bool
	hashes []uint64   // of the names in m.User
	sorted []hashedAt // the same by hash, then by place; only if there are many
}

type hashedAt struct {
	hash uint64
	at   int32
}

// fewProperties is the most properties that are searched one by one. Above it a sorted table keeps
// the search short whatever names a sender chooses.
const fewProperties = 12

// look points the view at a message. It must be called again after properties were added or
// removed.
func (v *view) look(m *Message) { v.m, v.ready = m, false }

func (v *view) prepare() {
	v.ready = true
	v.hashes, v.sorted = v.hashes[:0], v.sorted[:0]
	for i := range v.m.User {
		v.hashes = append(v.hashes, hashName(v.m.User[i].Name))
	}
	if len(v.hashes) <= fewProperties {
		return
	}
	for i, h := range v.hashes {
		v.sorted = append(v.sorted, hashedAt{h, int32(i)})
	}
	slices.SortFunc(v.sorted, func(a, b hashedAt) int {
		if c := cmp.Compare(a.hash, b.hash); c != 0 {
			return c
		}
		return cmp.Compare(a.at, b.at)
	})
}

// find returns the place of a property in m.User, or -1.
func (v *view) find(name string, hash uint64) int {
	if !v.ready {
		v.prepare()
	}
	if len(v.sorted) == 0 {
		for i, h := range v.hashes {
			if h == hash && strings.EqualFold(v.m.User[i].Name, name) {
				return i
			}
		}
		return -1
	}
	i, _ := slices.BinarySearchFunc(v.sorted, hash, func(a hashedAt, h uint64) int { return cmp.Compare(a.hash, h) })
	for ; i < len(v.sorted) && v.sorted[i].hash == hash; i++ {
		if at := int(v.sorted[i].at); strings.EqualFold(v.m.User[at].Name, name) {
			return at
		}
	}
	return -1
}

// user returns the value of an application property; null if it does not exist or filters cannot
// see it.
func (v *view) user(name string, hash uint64) event.Value {
	if at := v.find(name, hash); at >= 0 {
		return known(v.m.User[at].Value)
	}
	return event.Value{}
}
