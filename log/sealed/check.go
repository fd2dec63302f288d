package sealed

import (
	"bytes"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// Check builds the indexes of a file again from its frames, and compares them with the stored ones.
type Check struct {
	file   *File
	blocks []Block // of records
	rows   []Block // the same, as far as it follows from the frames
	what   *Tally
	foot   Footer // of the frames so far
	wrong  error
}

// NewCheck begins a check. The error is that of reading the index of records.
func NewCheck(f *File) (*Check, error) {
	blocks, err := f.Index(Records)
	if err != nil {
		return nil, err
	}
	c := &Check{file: f, blocks: blocks, rows: make([]Block, len(blocks)), what: NewTally(true)}
	for i := range blocks {
		c.rows[i] = blocks[i]
		c.rows[i].Frame, c.rows[i].Lowest, c.rows[i].Highest = 0, 0, 0
	}
	return c, nil
}

// Frame takes the next frame and its records. It must be called with every frame, in order.
func (c *Check) Frame(h *format.Header, records []byte) {
	c.foot.Frames++
	c.foot.BodyBytes += uint64(h.Bodies)
	c.foot.Durable = max(c.foot.Durable, h.Durable)
	begins, in := Holding(c.blocks, h.LSN), Holding(c.blocks, h.LSN+event.LSN(h.RecordsAt()))
	if begins < 0 || in < 0 {
		c.wrong = damaged("index of records: no block for LSN %d", h.LSN)
		return
	}
	var lowest, highest event.Time
	if h.Kind == format.Events {
		var err error
		if lowest, highest, err = c.what.Frame(event.Position(h.LSN), [2]uint32{format.BodiesAt, format.BodiesAt + h.Bodies}, h.Count, records, in); err != nil {
			c.wrong = damaged("frame %d: %v", h.LSN, err)
		}
	}
	c.rows[begins].begins(h.LSN, lowest, highest)
}

// Result returns the difference found, or nil, and its place in the file.
func (c *Check) Result() (at int64, err error) {
	f := &c.file.Footer
	if c.wrong != nil {
		return f.Parts[Records].Offset, c.wrong
	}
	for i := range c.rows {
		if c.rows[i] != c.blocks[i] {
			return f.Parts[RecordIndex].Offset + int64(i)*recordRow, damaged("index of records: row %d does not match the frames of its block", i)
		}
	}
	ids, err := c.file.IDs()
	if err != nil || !bytes.Equal(ids, c.what.idRows()) {
		return f.Parts[IDs].Offset, cmpOr(err, "ids differ from the frames")
	}
	contents, err := c.file.contents()
	remade := c.what.Contents()
	if err != nil || !bytes.Equal(contents, remade.encode()) {
		return f.Parts[Summary].Offset, cmpOr(err, "contents differ from the frames")
	}
	if err := c.file.checkPages(ids); err != nil {
		return f.Parts[Summary].Offset, err
	}
	t := c.what
	if f.Frames != c.foot.Frames || f.BodyBytes != c.foot.BodyBytes || f.Durable != c.foot.Durable || f.Records != t.Records || f.Events != t.Events ||
		f.FirstTime != t.FirstTime || f.Lowest != t.Lowest || f.Highest != t.Highest || f.Newest != t.Newest {
		return f.Parts[Summary].end(), damaged("footer: counts differ from the frames")
	}
	return 0, nil
}

// cmpOr returns err, or damage with a reason if err is nil.
func cmpOr(err error, reason string) error {
	if err != nil {
		return err
	}
	return damaged("%s", reason)
}
