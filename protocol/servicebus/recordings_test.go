package servicebus

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// WP-255, WP-256: the frames that the .NET SDK sends, as recorded, and the answers to them. A file
// is a script; the README in its folder explains the lines.
func TestDotnetRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/dotnet/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			bubble(t, func(o *Options) { o.Namespace = "ledgerbus" }, func(b *bench) {
				s := &replay{bench: b, ids: ids{}, conns: map[string]*replayConn{}}
				s.run(string(text))
				s.end()
			})
		})
	}
}

// replay is a recording that is replayed.
type replay struct {
	*bench
	ids   ids
	conns map[string]*replayConn
	line  string // that is carried out, with its number; those that it stands for below it
}

// replayConn is a connection of a script, with the frames that came and that no line has wanted
// yet, by channel.
type replayConn struct {
	*peerConn
	came map[uint16][]received
}

var recordedLine = regexp.MustCompile(`^([CS])> (#\d )?(?:ch(\d+) )?(.*?)(?: \| hex ([0-9a-f]+))?$`)

// run carries out the lines of a text. A line that begins with a blank continues the previous one.
func (s *replay) run(text string) {
	number, outer := 0, s.line
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\n     ", "\x00"), "\n") {
		number++
		s.line = fmt.Sprintf("%sline %d: %.200s\n", outer, number, line)
		number += strings.Count(line, "\x00")
		s.step(strings.ReplaceAll(line, "\x00", " "))
	}
	s.line = outer
}

func (s *replay) step(line string) {
	defer func() {
		if p := recover(); p != nil {
			s.Fatalf("%s%v", s.line, p)
		}
	}()
	m := recordedLine.FindStringSubmatch(line)
	switch {
	case line == "" || line[0] == '#' || strings.HasPrefix(line, "  =>"):
	case line[0] == '!':
		s.prepare(strings.Fields(line[1:]))
	case line[0] == '=': // a value, and how it is encoded
		value, digits, _ := strings.Cut(line[2:], " | hex ")
		if got := encode((&notation{text: value}).value("")); hex.EncodeToString(got) != digits {
			panic(fmt.Sprintf("encoded %x", got))
		}
	case m == nil:
		panic("not a line of a script")
	case m[1] == "C":
		channel, _ := strconv.ParseUint(m[3], 10, 16)
		s.send(s.conn(m[2], m[4]), uint16(channel), m[4], m[5])
	default:
		channel, _ := strconv.ParseUint(m[3], 10, 16)
		s.expect(s.conn(m[2], m[4]), uint16(channel), m[4])
	}
}

// Lines that .NET sends alike wherever the recordings leave them out, with the answers.
const (
	openLines = `C> %s open container-id="amqp://127.0.0.41/-77f4c8d1" hostname="127.0.0.41" max-frame-size=65536 channel-max=8191 idle-time-out=30000
S> %[1]s open`
	beginLines = `C> %s begin next-outgoing-id=1 incoming-window=4294967295 outgoing-window=5000 handle-max=262143 properties={}
S> %[1]s begin next-outgoing-id=1`
	endLines = `C> %s end
S> %[1]s end`
	senderLines = `C> %s attach name="sender %[1]s" handle=0 role=sender source=source(address="my-sender") target=target(address="/%s") initial-delivery-count=0 properties={:com.microsoft:timeout=7806u}
S> %[1]s attach handle=0 role=receiver
S> %[1]s flow handle=0`
	managementLines = `C> %s attach name="%[3]s:sender" handle=0 role=sender snd-settle-mode=settled(1) source=source() target=target(address="%[2]s/$management") initial-delivery-count=0 properties={:com.microsoft:timeout=7998u, :com.microsoft:entity-type="entity-mgmt"}
C> %[1]s attach name="%[3]s:receiver" handle=1 role=receiver snd-settle-mode=settled(1) source=source(address="%[2]s/$management") target=target(address="%[3]s") properties={:com.microsoft:timeout=7998u, :com.microsoft:entity-type="entity-mgmt"}
C> %[1]s flow next-incoming-id=1 incoming-window=4294967295 next-outgoing-id=1 outgoing-window=5000 handle=1 delivery-count=0 link-credit=50 available=0 echo=false
S> %[1]s attach name="%[3]s:sender" handle=0 role=receiver
S> %[1]s flow handle=0
S> %[1]s attach name="%[3]s:receiver" handle=1 role=sender`
)

// prepare carries out a line that the recordings do not have.
func (s *replay) prepare(words []string) {
	where := words[min(len(words)-1, 1)]
	if where[0] == '#' {
		where += " " + words[2]
		words = slices.Delete(words, 1, 2)
	}
	change := func(p *event.Properties) {
		p.LockDuration, p.MaxDeliveryCount = time.Minute, 10
		for _, w := range words[2:] {
			name, value, _ := strings.Cut(w, "=")
			d, _ := time.ParseDuration(value)
			switch name {
			case "sessions":
				p.RequiresSession = true
			case "lock":
				p.LockDuration = d
			case "disabled":
				p.Status = event.ReceiveDisabled
			default:
				panic("no such property")
			}
		}
	}
	switch words[0] {
	case "queue":
		s.queue(words[1], change)
	case "topic":
		s.topic(words[1], nil)
	case "subscription":
		s.subscription(words[1], words[2], nil)
	case "delete":
		if err := s.ns.DeleteEntity(s.Context(), engine.DeleteEntity{Path: words[1]}); err != nil {
			panic(err)
		}
	case "put":
		// messages with these ids, into an entity or one of its sessions; the body is the id
		// without m-
		entity, session, _ := strings.Cut(words[1], "@")
		for _, id := range words[2:] {
			properties := amqp.Properties{MessageID: id}
			if session != "" {
				properties.GroupID = amqp.Some(session)
			}
			s.put(entity, amqp.AppendData(amqp.AppendProperties(nil, &properties), []byte(strings.TrimPrefix(id, "m-"))))
		}
	case "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			panic(err)
		}
		time.Sleep(d)
	case "cut":
		s.conn("", "").net.Close()
		delete(s.conns, "")
	case "stop":
		go s.server.Close(s.Context())
	case "begin":
		s.run(fmt.Sprintf(beginLines, where))
	case "end":
		s.run(fmt.Sprintf(endLines, where))
	case "sender":
		s.run(fmt.Sprintf(senderLines, where, words[2]))
	case "management":
		s.run(fmt.Sprintf(managementLines, where, words[2], words[3]))
	default:
		panic("no such word")
	}
	synctest.Wait() // until the broker has done what follows from it
}

// conn is the connection of that name. A new one logs in as .NET does not, unless its first line is
// a header.
func (s *replay) conn(name, line string) *replayConn {
	if s.conns[name] == nil {
		c := &replayConn{s.dial(), map[uint16][]received{}}
		s.conns[name] = c
		if !strings.HasPrefix(line, "header") {
			c.authenticate("root", "root-key")
			c.raw(amqp.ProtocolAMQP[:])
			c.next()
			s.run(fmt.Sprintf(openLines, name+"ch0"))
		}
	}
	return s.conns[name]
}

// send sends the frame of a line. digits are the recorded bytes of its body, which must be those of
// the line.
func (s *replay) send(c *replayConn, channel uint16, line, digits string) {
	if _, header, ok := strings.Cut(line, "header AMQP "); ok {
		var b [8]byte
		copy(b[:], "AMQP")
		fmt.Sscan(header, &b[4], &b[5], &b[6], &b[7])
		c.raw(b[:])
		return
	}
	parts := (&notation{text: line}).frame()
	if digits != "" {
		recorded, err := hex.DecodeString(digits)
		if err != nil {
			panic(err)
		}
		was, its := decodeAll(recorded), ids{}
		if err := (matcher{ids: its, exact: true, anyTime: true}).all(parts, was); err != nil {
			panic(fmt.Sprintf("the recorded bytes say otherwise: %v", err))
		}
		if again := encode(was...); !bytes.Equal(again, recorded) {
			panic(fmt.Sprintf("encoded  %x\nrecorded %x", again, recorded))
		}
		for id, value := range its {
			if _, ok := s.ids[id]; !ok { // the client has made it
				s.ids[id] = value
			}
		}
	}
	filled := make([]any, len(parts))
	for i, p := range parts {
		filled[i] = s.ids.fill(p)
	}
	const frame = 65536 - amqp.FrameHeaderSize
	first := filled[0].(amqp.Described)
	body, payload := encode(first), encode(filled[1:]...)
	for {
		n := min(len(payload), frame-len(body))
		c.sendBody(channel, append(body, payload[:n]...))
		if payload = payload[n:]; len(payload) == 0 {
			return
		}
		last := len(payload) < frame-20
		rest := make(fieldList, len(notedByCode[0x14].fields))
		rest[0], rest[5] = first.Value.(amqp.List)[0], !last // the handle, and more
		body = encode(amqp.Described{Descriptor: uint64(0x14), Value: rest})
	}
}

// sendBody sends a frame with this performative and payload.
func (c *replayConn) sendBody(channel uint16, body []byte) {
	p, _, err := amqp.DecodePerformative(body, amqp.DefaultLimits)
	if err != nil {
		panic(err)
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(amqp.FrameHeaderSize+len(body)))
	switch p.(type) {
	case *amqp.SASLInit:
		head = append(head, 2, amqp.FrameTypeSASL, 0, 0)
	default:
		head = append(head, 2, amqp.FrameTypeAMQP, byte(channel>>8), byte(channel))
		c.spoken.say(channel, p)
	}
	c.raw(append(head, body...))
}

// expect wants the next frame of a channel to be that of a line.
func (s *replay) expect(c *replayConn, channel uint16, line string) {
	if line == "(TCP connection closed by broker)" {
		if r := c.take(channel); r.err == nil {
			panic("it is open, and " + r.show())
		}
		return
	}
	r := c.take(channel)
	if header, ok := strings.CutPrefix(line, "header AMQP "); ok {
		if got := fmt.Sprintf("%d %d %d %d", r.header[4], r.header[5], r.header[6], r.header[7]); got != header {
			panic("came: " + got)
		}
		return
	}
	if r.err != nil {
		panic(r.err)
	}
	parts, got := (&notation{text: line}).frame(), decodeAll(r.raw[amqp.FrameHeaderSize:])
	if len(parts) == 1 { // the line leaves the message out
		got = got[:1]
	}
	if err := (matcher{ids: s.ids}).all(parts, got); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, r.show()))
	}
}

// take is the next frame of a channel.
func (c *replayConn) take(channel uint16) received {
	end := time.After(20 * time.Second)
	for len(c.came[channel]) == 0 {
		select {
		case r, ok := <-c.in:
			if !ok {
				r.err = errors.New("the connection has ended")
				return r
			}
			if r.p != nil || r.header != nil || r.err != nil {
				c.came[r.channel] = append(c.came[r.channel], r)
			}
		case <-end:
			panic(fmt.Sprintf("nothing came, but on other channels %v", c.left()))
		}
	}
	r := c.came[channel][0]
	c.came[channel] = c.came[channel][1:]
	return r
}

// left shows the frames that no line has wanted.
func (c *replayConn) left() (all []string) {
	for more := true; more; {
		select {
		case r, ok := <-c.in:
			if more = ok; ok && r.p != nil {
				c.came[r.channel] = append(c.came[r.channel], r)
			}
		default:
			more = false
		}
	}
	for _, frames := range c.came {
		for _, r := range frames {
			all = append(all, "\n"+r.show())
		}
	}
	return all
}

func (r received) show() string {
	if r.p == nil {
		return fmt.Sprint("came: ", r.header, r.err)
	}
	return fmt.Sprintf("came: S> ch%d %s", r.channel, showAll(decodeAll(r.raw[amqp.FrameHeaderSize:]), " "))
}

// end wants no frame left that the script does not have.
func (s *replay) end() {
	synctest.Wait()
	for name, c := range s.conns {
		if left := c.left(); len(left) > 0 {
			s.Errorf("frames that the script does not have: %s%v", name, left)
		}
	}
}
