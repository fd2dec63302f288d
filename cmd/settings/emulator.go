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

// Variables of the emulator's container that the broker reads; CONFIG_PATH is another name of
// LEDGERBUS_ENTITIES. The others (ACCEPT_EULA, SQL_SERVER, MSSQL_SA_PASSWORD, SQL_WAIT_INTERVAL)
// are about a database that the broker does not need.
const (
	inlineVariable = "LEDGERBUS_ENTITIES_JSON" // an entity file's content
	inlineAlias    = "CONFIG_JSON"
	// an entity file that is read if it exists and no other is named; set in the container image
	presentVariable = "LEDGERBUS_ENTITIES_IF_PRESENT"
	// replaces the emulator's HTTP port in the addresses of the listeners
	portVariable = "EMULATOR_HTTP_PORT"
)

//go:embed sample.json
var sample []byte

// inlineFile is an entity file that is the value of an environment variable.
type inlineFile struct{ variable, content string }

// emulator reads the variables that are not settings.
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

// moveHTTPPort replaces the emulator's HTTP port by the port of EMULATOR_HTTP_PORT in the addresses
// of the listeners: in the default ones, and in those of the container image's environment.
// Addresses with other ports stay.
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

// entityFile reads the entity file of the settings; it returns nil when there is none. An inline
// file counts as part of the environment: a flag wins over it, and it wins over the config file.
// Without a named file, entityFile reads the one of LEDGERBUS_ENTITIES_IF_PRESENT if it exists. If
// not, a broker in development mode without named queues has the emulator's sample.
//
// entityFile reads a file as the emulator does if an emulator's variable names it. It reads any
// other strictly, and outside development mode without the emulator's defaults.
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

// sample reads the emulator's sample entities; it returns nil if they are not wanted. Their rules
// are initial ones: unlike the rules of a file, they do not undo later changes.
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
