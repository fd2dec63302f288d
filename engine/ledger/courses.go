package ledger

import "github.com/ledgerbus/ledgerbus/log/event"

// course holds what [Ledger.Why] knows of a message that is dead, or that a receiver has received.
type course struct {
	there    bool
	received bool   // tries tells who received it
	cause    *cause // nil: it is not dead
	// unreceived is set for a dead message that no receiver had received.
	unreceived bool
	tries
}

// coursesPage is the number of consecutive messages kept together: they come and leave in the order
// of their numbers.
const coursesPage = 256

type coursePage struct {
	of   [coursesPage]course
	used int
}

// courses are the courses of one slice's messages, by number. An empty page takes no memory.
type courses struct {
	pages map[event.SequenceNumber]*coursePage
	page  *coursePage // the page looked at last; nil: none
	at    event.SequenceNumber
}

func newCourses() courses { return courses{pages: make(map[event.SequenceNumber]*coursePage)} }

// look returns the page of a number; nil: there is none.
func (f *courses) look(n event.SequenceNumber) *coursePage {
	if at := n / coursesPage; f.page == nil || f.at != at {
		f.page, f.at = f.pages[at], at
	}
	return f.page
}

// find returns the course of a message; nil: none is known.
func (f *courses) find(n event.SequenceNumber) *course {
	if p := f.look(n); p != nil && p.of[n%coursesPage].there {
		return &p.of[n%coursesPage]
	}
	return nil
}

// add returns the course of a message, and creates it if there is none.
func (f *courses) add(n event.SequenceNumber) *course {
	p := f.look(n)
	if p == nil {
		p = &coursePage{}
		f.pages[f.at], f.page = p, p
	}
	x := &p.of[n%coursesPage]
	if !x.there {
		x.there = true
		p.used++
	}
	return x
}

// remove forgets the course of a message.
func (f *courses) remove(n event.SequenceNumber) {
	p := f.look(n)
	p.of[n%coursesPage] = course{}
	if p.used--; p.used == 0 {
		delete(f.pages, f.at)
		f.page = nil
	}
}

// all returns the numbers of the messages that have a course, in no order.
func (f *courses) all() (list []event.SequenceNumber) {
	for at, p := range f.pages {
		for i := range p.of {
			if p.of[i].there {
				list = append(list, at*coursesPage+event.SequenceNumber(i))
			}
		}
	}
	return list
}
