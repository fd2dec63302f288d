package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// used as the arguments of a request that has some.
type arguments struct {
	Text   string            `json:"text"`
	Number int               `json:"number"`
	Map    map[string]string `json:"map"`
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"": "", " \n": "", "{}": "", `{"text":"a","number":3,"map":{"a":"b"}}`: "",
		`{"other":1}`:                        `the body cannot be read: json: unknown field "other"`,
		`{"number":"3"}`:                     "the body cannot be read: ",
		`{"number":1e400}`:                   "the body cannot be read: ",
		`null`:                               "the body is not a JSON object",
		`"text"`:                             "the body is not a JSON object",
		`{"text":"a","text":"b"}`:            `the body has the member "text" twice`,
		`{"number":1,"text":"a","Number":1}`: `the body has the member "Number" twice`,
		`{"map":{"a":"b","a":"c"}}`:          `the body has the member "a" twice`,
		`{} {}`:                              "the body has more than one JSON object",
		`{}x`:                                "the body has more than one JSON object",
		"{\"text\":\"\x80\"}":                "the body is not UTF-8",
		"{" + strings.Repeat(" ", MaxBody-2) + "}": "",
		"{" + strings.Repeat(" ", MaxBody-1) + "}": "the body has more than 8192 bytes",
		strings.Repeat(`{"map":`, 1000):            "the body cannot be read: ",
	} {
		err := Arguments([]byte(body), &arguments{})
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q in front", body, err, want)
		}
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	var p Partitions
	if err := Answer([]byte(`{"partitions":[{"id":1,"state":"serving","new":true}],"more":1}`), &p); err != nil || len(p.Partitions) != 1 || p.Partitions[0].State != "serving" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, body := range []string{"", "<html>", `{"partitions":1}`, strings.Repeat(" ", MaxAnswer) + "{}"} {
		if err := Answer([]byte(body), &p); err == nil {
			t.Errorf("%.20q is taken", body)
		}
	}
}

// Accepted input can be written and read again, with the same meaning; other input does no harm.
func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"text":"a","number":3,"map":{"a":"b"}}`))
	f.Add([]byte(`{"map":{}}`))
	f.Add([]byte(" {} "))
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, again arguments
		if Arguments(body, &got) != nil {
			return
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > MaxBody { // escapes may be longer
			return
		}
		if err := Arguments(text, &again); err != nil || !cmp.Equal(got, again) {
			t.Fatalf("%q is %+v, and %q is %+v, %v (-want +got):\n%s", body, got, text, again, err, cmp.Diff(again, got))
		}
	})
}

// Reading any answer, from any server, does no harm.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"partitions":[{"id":1,"state":"fenced","since":"2030-01-02T03:04:05Z","cause":"x","by":"y"}]}`))
	f.Add([]byte(`{"error":{"code":"busy","message":"x"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, into := range []any{new(Partitions), new(Partition), new(Failure)} {
			if Answer(body, into) == nil {
				if _, err := json.Marshal(into); err != nil && !strings.Contains(err.Error(), "year outside") {
					t.Fatalf("%v; want no error but that a year is outside", err)
				}
			}
		}
	})
}
