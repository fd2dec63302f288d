package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// origins holds the numbers of origins that this log already has. It is a cache: an origin that was
// dropped from it is defined again, with another number.
type origins struct {
	numbers map[*Origin]loggedOrigin
	bytes   int // their size, with their texts
	// of the log, counted from the start of the run; an origin that an older chapter defined is
	// defined again, with its number
	chapter uint32
}

// loggedOrigin is an origin whose definition is in the log.
type loggedOrigin struct {
	id      event.OriginID
	chapter uint32 // the newest chapter that has the definition
}

// maxOriginBytes bounds the cache of origin numbers; a full one is emptied.
const maxOriginBytes = 4 << 20

// originCost is the size of an origin in the cache without its texts, bytes.
const originCost = 192

// bytesOf returns the size of an origin in the cache.
func bytesOf(o *Origin) int {
	return originCost + len(o.RemoteAddress) + len(o.ContainerID) + len(o.Product) + len(o.Principal) + len(o.Link) + len(o.Entity)
}

// learn notes the number of an origin whose definition is in the log.
func (c *origins) learn(o *Origin, id event.OriginID) {
	if _, again := c.numbers[o]; !again {
		size := bytesOf(o)
		if c.numbers == nil || c.bytes+size > maxOriginBytes {
			// a map that is cleared keeps its memory
			c.numbers, c.bytes = map[*Origin]loggedOrigin{}, 0
		}
		c.bytes += size
	}
	c.numbers[o] = loggedOrigin{id, c.chapter}
}

// clipOrigin returns an origin as it is defined in the log: its texts are for the audit alone.
func clipOrigin(o *Origin) event.Origin {
	c := *o
	for _, text := range []*string{&c.RemoteAddress, &c.ContainerID, &c.Product, &c.Principal, &c.Link, &c.Entity} {
		*text = clip(*text)
	}
	return c
}
