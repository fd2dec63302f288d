package engine

import "github.com/ledgerbus/ledgerbus/log/event"

// NoteLink puts into the log that a link was opened, or that it is no more (docs/decisions/0030). For a receiver [Attach] and [Detach] can
// do that; a sender's link is known to no partition, so whoever has it tells the log. Of too many links at a time some are left
// out. No reply waits for what it adds.
type NoteLink struct {
	Slice  event.Slice
	Origin *Origin     // the link
	Fact   event.Event // [*event.LinkOpened] or [*event.LinkClosed]; its envelope is filled in
}

func (*NoteLink) command() {}

// maxLinkText bounds what a fact says of the end of a link: texts of peers and of operating systems.
const maxLinkText = 1024

// noteLink adds a fact about a link. With an origin it has that; without one that which stands in the fact: a link's number, which the
// cache of numbers may have lost since it was opened.
func noteLink(d *decision, cmd *NoteLink) {
	of := cmd.Fact.Common()
	if of.Slice = cmd.Slice; cmd.Origin != nil {
		of.Origin = d.origin(cmd.Origin)
	}
	if closed, ok := cmd.Fact.(*event.LinkClosed); ok {
		closed.Condition, closed.Description = clipTo(closed.Condition, maxLinkText), clipTo(closed.Description, maxLinkText)
	}
	d.events = append(d.events, cmd.Fact)
	d.early = true
}
