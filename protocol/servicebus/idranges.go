package servicebus

// idRanges is a set of delivery-ids, kept as ranges in the order in which they were added. It
// forgets the oldest.
type idRanges []idRange

// idRange is the delivery-ids first to last.
type idRange struct{ first, last uint32 }

// maxRanges bounds a set: a range is a series of deliveries with no deliveries of other links
// between them.
const maxRanges = 1024

func (r *idRanges) note(id uint32) {
	s := *r
	if n := len(s); n > 0 && s[n-1].last+1 == id {
		s[n-1].last = id
		return
	}
	if len(s) == maxRanges {
		s = append(s[:0], s[1:]...)
	}
	*r = append(s, idRange{id, id})
}

// run reports whether the set has an id, and for how many ids from there, at most n, the answer is
// the same.
func (r idRanges) run(id, n uint32) (in bool, same uint32) {
	for i := len(r) - 1; i >= 0; i-- {
		if in, n = r[i].run(id, n); in {
			return true, n
		}
	}
	return false, n
}

// run reports whether an id is in the range, and for how many ids from there, at most n, the answer
// is the same.
func (r idRange) run(id, n uint32) (in bool, same uint32) {
	if id-r.first <= r.last-r.first {
		return true, min(n, r.last-id+1)
	}
	return false, min(n, r.first-id)
}

// idOwners holds the entities of settled deliveries, for the texts that refuse to settle them
// again.
type idOwners []idOwner

// idOwner is a series of delivery-ids settled in order.
type idOwner struct {
	idRange
	path string
}

func (o *idOwners) note(id uint32, path string) {
	s := *o
	if n := len(s); n > 0 && s[n-1].last+1 == id && s[n-1].path == path {
		s[n-1].last = id
		return
	}
	if len(s) == maxRanges {
		s = append(s[:0], s[maxRanges/2:]...) // the older half at once keeps each addition cheap
	}
	*o = append(s, idOwner{idRange{id, id}, path})
}

// run returns the path of the entity of a delivery, or "" if it is not known, or no longer. same is
// the number of deliveries from there, at most n, with the same answer.
func (o idOwners) run(id, n uint32) (path string, same uint32) {
	for i := len(o) - 1; i >= 0; i-- {
		var in bool
		if in, n = o[i].run(id, n); in {
			return o[i].path, n
		}
	}
	return "", n
}
