package event

import "testing"

// Not parallel: it counts allocations.
func TestUUIDText(t *testing.T) {
	token := LockToken{0x00, 0x01, 0x9a, 0xbf, 0x04, 0x05, 0x46, 0x07, 0x88, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0xff}
	const want = "00019abf-0405-4607-8809-0a0b0c0d0eff"
	if got := token.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(AppendUUID([]byte("id "), string(token[:]))); got != "id "+want {
		t.Errorf("%+v, want %+v", got, "id "+want)
	}
	room := make([]byte, 0, 36)
	if n := testing.AllocsPerRun(100, func() { AppendUUID(room, token[:]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBlobMatches(t *testing.T) {
	t.Parallel()
	b := Blob{Size: 4, Sum: Sum([]byte("body"))}
	for _, c := range []struct {
		read string
		want bool
	}{{"body", true}, {"bode", false}, {"bod", false}, {"", false}} {
		if b.Matches([]byte(c.read)) != c.want {
			t.Errorf("%q: not %t", c.read, c.want)
		}
	}
	if !(Blob{}).Matches(nil) {
		t.Error("no bytes are an empty blob")
	}
}
