package settings

import (
	_ "embed" // the sample
	"errors"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
)

// Variables of the emulator's container that mean something here; CONFIG_PATH is another name of
// LEDGERBUS_ENTITIES. The rest of them (ACCEPT_EULA, SQL_SERVER, MSSQL_SA_PASSWORD,
// SQL_WAIT_INTERVAL) is about a database that is not needed, and is not read.
const (
	inlineVariable = "LEDGERBUS_ENTITIES_JSON" // an entity file's content
	inlineAlias    = "CONFIG_JSON"
	// an entity file that is read when it exists and no other is named; set in the container image
	presentVariable = "LEDGERBUS_ENTITIES_IF_PRESENT"
	// takes the place of the emulator's HTTP port in the addresses listened on
	portVariable = "EMULATOR_HTTP_PORT"
)

//go:embed sample.json
var sample []byte

// inlineFile is an entity file that is the value of an environment variable.
type inlineFile struct{ variable, content string }

// emulator reads the variables that are no words of ours.
func (l *loader) emulator(lookup func(string) (string, bool)) {
	for _, name := range []string{inlineAlias, inlineVariable} { // the latter wins
		if content, ok := lookup(name); ok && content != "" {
			l.inline = inlineFile{name, content}
		}
	}
	l.present, _ = lookup(presentVariable)
	if value, ok := lookup(portVariable); ok && value != "" {
		port, err := strconv.ParseUint(value, 10, 16)
		if err != nil || port == 0 {
			l.problems.add(portVariable, "%q is not a port from 1 to 65535", value)
			return
		}
		l.httpPort = strconv.FormatUint(port, 10)
	}
}

// moveHTTPPort puts the port of EMULATOR_HTTP_PORT in the place of the emulator's, wherever that is
// listened on: by default, and in the container image, whose environment names the addresses. Other
// addresses are somebody's choice and stay.
func (l *loader) moveHTTPPort() {
	if l.httpPort == "" {
		return
	}
	_, usual, _ := net.SplitHostPort(developmentHTTP)
	// a copy: the list may be the caller's
	addresses := make([]string, len(l.settings.Listening.Addresses))
	for i, entry := range l.settings.Listening.Addresses {
		address, mode, chosen := strings.Cut(entry, "/")
		if host, port, err := net.SplitHostPort(address); err == nil && port == usual {
			entry = net.JoinHostPort(host, l.httpPort)
			if chosen {
				entry += "/" + mode
			}
		}
		addresses[i] = entry
	}
	l.settings.Listening.Addresses = addresses
}

// entityFile reads what the settings name as entity file, nil when there is none. An inline one
// counts as part of the environment: a flag wins over it, and it over the config file. Where none
// is named, the one of LEDGERBUS_ENTITIES_IF_PRESENT is read if it exists; if not, a broker in
// development mode for which no queue is named either has the emulator's sample.
//
// A file that is named as the emulator's is read as the emulator reads it. Any other is strict, and
// outside development mode the emulator's defaults are not in it.
func (l *loader) entityFile() (*entityFile, error) {
	file, where := l.settings.Entities.File, l.origin["entities"]
	w, _ := word("entities")
	emulators := readMode{lenient: true}
	ours := readMode{service: l.settings.Mode != Development}
	switch {
	case l.inline.content == "" && file == "" && l.present != "":
		if _, err := os.Stat(l.present); errors.Is(err, fs.ErrNotExist) {
			return l.sample()
		}
		l.settings.Entities.File = l.present
		return readEntities(l.present, emulators)
	case l.inline.content == "" || where == "--"+w.Flag():
		switch {
		case file == "":
			return nil, nil
		case where == w.alias:
			return readEntities(file, emulators)
		}
		return readEntities(file, ours)
	case where == w.Variable() || where == w.alias:
		return nil, Problems{{Where: l.inline.variable, Text: "given together with " + where + "; one of them is enough"}}
	}
	l.settings.Entities.File = ""
	if l.inline.variable == inlineAlias {
		return parseEntities(l.inline.variable, []byte(l.inline.content), emulators, nil)
	}
	return parseEntities(l.inline.variable, []byte(l.inline.content), ours, nil)
}

// sample reads the emulator's sample entities, nil where they are not wanted. Their rules are those
// to begin with: unlike those of a file, they stay as somebody has changed them.
func (l *loader) sample() (*entityFile, error) {
	if l.settings.Mode != Development || len(l.settings.Entities.Queues) > 0 {
		return nil, nil
	}
	f, err := parseEntities("sample.json", sample, readMode{}, nil)
	if err != nil {
		return nil, err
	}
	l.settings.Entities.Sample, f.given = true, map[string]uint32{}
	for i := range f.put {
		f.put[i].OnlyRules = false
		f.given[strings.ToLower(f.put[i].Path)] = 0
	}
	return f, nil
}
