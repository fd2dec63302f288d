package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerbus/ledgerbus/test/history"
)

// verdicts returns the verdicts of the checks of a directory or broker.
func verdicts(t *testing.T, r result) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	for line := range strings.Lines(r.out) {
		var says struct{ Part, Check, Verdict string }
		if err := json.Unmarshal([]byte(line), &says); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		if says.Part == "row" {
			found[says.Check] = append(found[says.Check], says.Verdict)
		}
	}
	return found
}

// everyFile returns the content of each file below a directory.
func everyFile(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(path)
			all[path] = string(text)
		} else if err == nil {
			all[path] = d.Type().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A sound directory is reported as sound, stopped or in use, and is not changed. Each defect is
// found, named and ends with exit code 1.
func TestDoctor(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if err := history.Make(t.Context(), data, history.Options{Events: 5000, Dead: 3, Lost: 20, Checkpoint: 500}); err != nil {
		t.Fatal(err)
	}
	before := everyFile(t, data)
	sound := execute(t, "", "", "doctor", "--data", data)
	if after := everyFile(t, data); len(after) != len(before) {
		t.Errorf("%d files, there were %d", len(after), len(before))
	} else {
		for path, text := range before {
			if after[path] != text {
				t.Errorf("%s is changed", path)
			}
		}
	}
	if sound.code != 0 {
		t.Fatalf("%+v; want sound.code == 0", sound)
	}
	checkOutput(t, sound.out, `warning  settings     serve accepts the environment and the defaults; there is no file; the mode is development`, `ok +permissions  only the owner can access the \d+ files and directories\n`, `ok +disk +\d+ \wiB of \d+ \wiB free\n|warning +disk `,
		`sync +4 KiB are durable after \d\S* \(median\), \d\S* \(p99\); 2 at once: \d+\.\d times as many per second, 4 at once: .*, 8 at once: `,
		`ok +log +\d+ frames, \d+ records, \d+ \w+, all checksums correct\n`, `ok +replay +replayed \d+ records; the result matches the hashes of [1-9]\d* stored states\n`,
		`clock +shows \d{4}-.*Z`, `\d checks, \d warnings?, 0 bad\n$`)

	for _, c := range []struct {
		name, check, verdict string
		code                 int
		harm                 func(dir string)
	}{
		{"others may read", "permissions", "warning", 0, func(dir string) { chmod(t, filepath.Join(dir, "namespace.json"), 0o644) }},
		{"a link", "permissions", "bad", 1, func(dir string) {
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
		}},
		{"damage", "log", "bad", 1, func(dir string) { flip(t, dir) }},
	} {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(data)); err != nil {
			t.Fatal(err)
		}
		private(t, dir)
		c.harm(dir)
		r := execute(t, "", "", "doctor", "--data", dir, "-o", "json")
		if got := verdicts(t, r); r.code != c.code || !slices.Contains(got[c.check], c.verdict) {
			t.Errorf("%s: %v\n%+v; want r.code == c.code && slices.Contains(got[c.check], c.verdict)", c.name, got, r)
		}
	}
	config := filepath.Join(t.TempDir(), "bus.yaml")
	if err := os.WriteFile(config, []byte("mode: production\ncolour: red\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, "", "", "doctor", "--data", data, "--config", config); r.code != 1 || !strings.Contains(r.out, "bad      settings") || !strings.Contains(r.out, "colour") {
		t.Errorf(`%+v; want r.code == 1 && strings.Contains(r.out, "bad      settings") && strings.Contains(r.out, "colour")`, r)
	}
	for _, args := range [][]string{{"x"}, {"--live"}, {"--config", "x"}, {"--data", filepath.Join(data, "nothing")}, {"--data", data, "--context", "x"}} {
		if r := execute(t, "", "", append([]string{"doctor"}, args...)...); r.code != 2 {
			t.Errorf("%q: %+v; want r.code == 2", args, r)
		}
	}
}

func chmod(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

// private removes other users' access to a copy.
func private(t *testing.T, dir string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		mode := os.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		chmod(t, path, mode)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// flip changes a byte in the middle of a sealed file.
func flip(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "partitions", "*", "sealed", "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v; want len(names) != 0", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/3] ^= 1
	if err := os.WriteFile(names[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A running broker reports its state, and its directory can be examined meanwhile.
func TestDoctorOfBroker(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	broker, stop := startStoppable(t, data)
	defer stop()
	causeFailures(t, broker)
	asked := execute(t, broker, "", "doctor")
	if asked.code != 0 {
		t.Fatalf("%+v; want asked.code == 0", asked)
	}
	checkOutput(t, asked.out, `ok +health +accepts messages; answered in `, `ok +clock +`, `ok +partitions +4 partitions, all serving, no known damage\n`, `3 checks, 0 warnings, 0 bad\n$`)
	if r := execute(t, "", "", "doctor", "--data", data); r.code != 0 || !strings.Contains(r.out, "all checksums correct") {
		t.Errorf(`%+v; want r.code == 0 && strings.Contains(r.out, "all checksums correct")`, r)
	}
	if left, err := filepath.Glob(filepath.Join(data, "doctor-*")); err != nil || left != nil {
		t.Errorf("%v, %v; want left == nil", left, err)
	}
	if r := execute(t, broker, "", "partition", "fence", "2", "--reason", "a test"); r.code != 0 {
		t.Fatalf("%+v; want r.code == 0", r)
	}
	if r := execute(t, broker, "", "doctor"); r.code != 1 || !strings.Contains(r.out, "partition 2 is fenced") {
		t.Errorf(`%+v; want r.code == 1 && strings.Contains(r.out, "partition 2 is fenced")`, r)
	}
	nobody := "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
	if r := execute(t, nobody, "", "doctor"); r.code != 1 || !strings.Contains(r.errOut, "check that the broker is running") {
		t.Errorf(`%+v; want r.code == 1 && strings.Contains(r.errOut, "check that the broker is running")`, r)
	}
	wrong := strings.Replace(broker, "SAS_KEY_VALUE", "d3Jvbmc=", 1)
	if r := execute(t, wrong, "", "doctor"); r.code != 1 || !strings.Contains(r.out, "bad      partitions") {
		t.Errorf(`%+v; want r.code == 1 && strings.Contains(r.out, "bad      partitions")`, r)
	}
}
