package export

import (
	"bufio"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// A Format is the file format of tables.
type Format string

const (
	JSONLines Format = "jsonl"
	CSV       Format = "csv"
	Parquet   Format = "parquet"
)

const (
	groupRows = 64 << 10 // rows in a group of a Parquet file
	// maximum size of the texts and bodies in a group; only its last row may exceed it
	groupBytes  = 32 << 20
	pendingRows = 1 << 10 // rows collected before a write
)

// A table is a file with the rows of one table.
type table[T any] struct {
	name    string
	rows    []T
	count   int64
	bytes   int // of texts and bodies in the open group
	file    *os.File
	out     *bufio.Writer
	parquet *parquet.GenericWriter[T] // nil: text
	text    *textWriter
}

// partName is the suffix of a file while it is written.
const partName = ".part"

func newTable[T any](dir, name string, f Format) (*table[T], error) {
	t := &table[T]{name: filepath.Join(dir, name+"."+string(f)), rows: make([]T, 0, pendingRows)}
	var err error
	if t.file, err = os.OpenFile(t.name+partName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	t.out = bufio.NewWriterSize(t.file, 256<<10)
	if f == Parquet {
		t.parquet = parquet.NewGenericWriter[T](t.out, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(groupRows), parquet.CreatedBy("ledgerbus", "", ""))
		return t, nil
	}
	t.text = newTextWriter(t.out, reflect.TypeFor[T](), f == CSV)
	return t, nil
}

// add adds a row that has that many bytes of texts and bodies.
func (t *table[T]) add(row T, bytes int) error {
	t.rows, t.count = append(t.rows, row), t.count+1
	if t.bytes += bytes; len(t.rows) < pendingRows && t.bytes < groupBytes {
		return nil
	}
	return t.write()
}

func (t *table[T]) write() error {
	if t.parquet != nil {
		_, err := t.parquet.Write(t.rows)
		if err == nil && t.bytes >= groupBytes {
			err = t.parquet.Flush()
			t.bytes = 0
		}
		clear(t.rows)
		t.rows = t.rows[:0]
		return err
	}
	t.bytes = 0
	for i := range t.rows {
		if err := t.text.row(reflect.ValueOf(&t.rows[i]).Elem()); err != nil {
			return err
		}
	}
	clear(t.rows)
	t.rows = t.rows[:0]
	return nil
}

// close writes the remaining rows and durably renames the file to its final name, which says that
// it is complete.
func (t *table[T]) close() error {
	err := t.write()
	if err == nil && t.parquet != nil {
		err = t.parquet.Close()
	}
	if err == nil {
		err = t.out.Flush()
	}
	if err == nil {
		err = t.file.Sync()
	}
	if err = errors.Join(err, t.file.Close()); err != nil {
		return err
	}
	return os.Rename(t.name+partName, t.name)
}

// abandon closes the incomplete file.
func (t *table[T]) abandon() { t.file.Close() }

// A column is a column of a table in a text format.
type column struct {
	name           string
	time, optional bool
}

// A textWriter writes rows as JSON lines or CSV.
type textWriter struct {
	out     io.Writer
	columns []column
	csv     bool
	line    []byte
}

func newTextWriter(out io.Writer, row reflect.Type, csv bool) *textWriter {
	w := &textWriter{out: out, csv: csv}
	var header []string
	for i := range row.NumField() {
		options := strings.Split(row.Field(i).Tag.Get("parquet"), ",")
		c := column{name: options[0]}
		for _, o := range options[1:] {
			c.time, c.optional = c.time || o == "timestamp", c.optional || o == "optional"
		}
		w.columns, header = append(w.columns, c), append(header, c.name)
	}
	if csv {
		w.line = append(w.line, strings.Join(header, ",")+"\n"...)
	}
	return w
}

func (w *textWriter) row(v reflect.Value) error {
	if !w.csv {
		w.line = append(w.line, '{')
	}
	first := true
	for i := range w.columns {
		c, f := &w.columns[i], v.Field(i)
		null := c.optional && f.IsZero()
		if w.csv {
			if i > 0 {
				w.line = append(w.line, ',')
			}
			if !null {
				w.value(c, f)
			}
			continue
		}
		if null {
			continue
		}
		if !first {
			w.line = append(w.line, ',')
		}
		first = false
		w.line = append(append(append(w.line, '"'), c.name...), '"', ':')
		w.value(c, f)
	}
	if !w.csv {
		w.line = append(w.line, '}')
	}
	w.line = append(w.line, '\n')
	_, err := w.out.Write(w.line)
	w.line = w.line[:0]
	return err
}

func (w *textWriter) value(c *column, f reflect.Value) {
	switch f.Kind() {
	case reflect.Int32, reflect.Int64:
		if !c.time {
			w.line = strconv.AppendInt(w.line, f.Int(), 10)
			return
		}
		if !w.csv {
			w.line = append(w.line, '"')
		}
		w.line = time.UnixMilli(f.Int()).UTC().AppendFormat(w.line, "2006-01-02T15:04:05.000Z")
		if !w.csv {
			w.line = append(w.line, '"')
		}
	case reflect.Bool:
		w.line = strconv.AppendBool(w.line, f.Bool())
	case reflect.Slice:
		if w.csv {
			w.line = base64.StdEncoding.AppendEncode(w.line, f.Bytes())
			return
		}
		w.line = append(base64.StdEncoding.AppendEncode(append(w.line, '"'), f.Bytes()), '"')
	default:
		if w.csv {
			w.line = appendCSV(w.line, f.String())
			return
		}
		w.line = appendJSON(w.line, f.String())
	}
}

// appendJSON appends a text as a JSON string in ASCII, because terminals interpret more than
// control characters.
func appendJSON(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ' && r < 0x7f:
			dst = append(dst, byte(r))
		case r < 0x10000:
			dst = appendUnit(dst, r)
		default:
			r -= 0x10000
			dst = appendUnit(appendUnit(dst, 0xd800+r>>10), 0xdc00+r&0x3ff)
		}
	}
	return append(dst, '"')
}

func appendUnit(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// appendCSV appends a quoted text, in ASCII with backslashes. It puts an apostrophe before a text
// that a spreadsheet takes for a formula.
func appendCSV(dst []byte, s string) []byte {
	plain := true
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == ',' {
			plain = false
			break
		}
	}
	formula := s != "" && strings.IndexByte("=+-@", s[0]) >= 0
	if plain && !formula {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	if formula {
		dst = append(dst, '\'')
	}
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '"':
			dst = append(dst, '"', '"')
		case r == '\\':
			dst = append(dst, '\\', '\\')
		case r >= ' ' && r < 0x7f:
			dst = append(dst, byte(r))
		default:
			q := strconv.AppendQuoteToASCII(nil, s[:n])
			dst = append(dst, q[1:len(q)-1]...)
		}
		s = s[n:]
	}
	return append(dst, '"')
}
