package settings

import (
	"net"
	"strconv"
)

// Variables of the emulator's container that mean something here; CONFIG_PATH is another name of LEDGERBUS_ENTITIES. The rest of
// them (ACCEPT_EULA, SQL_SERVER, MSSQL_SA_PASSWORD, SQL_WAIT_INTERVAL) is about a database that is not needed: nobody reads them.
const (
	inlineVariable = "LEDGERBUS_ENTITIES_JSON" // an entity file's content
	inlineAlias    = "CONFIG_JSON"
	portVariable   = "EMULATOR_HTTP_PORT" // of the second address that is listened on when none is given
)

// inlineFile is an entity file that is the value of an environment variable.
type inlineFile struct{ variable, content string }

// emulator reads the variables that are no words of ours.
func (l *loader) emulator(lookup func(string) (string, bool)) {
	for _, name := range []string{inlineAlias, inlineVariable} { // the latter wins
		if content, ok := lookup(name); ok && content != "" {
			l.inline = inlineFile{name, content}
		}
	}
	if value, ok := lookup(portVariable); ok && value != "" {
		port, err := strconv.ParseUint(value, 10, 16)
		if err != nil || port == 0 {
			l.problems.add(portVariable, "%q is not a port from 1 to 65535", value)
			return
		}
		l.httpPort = strconv.FormatUint(port, 10)
	}
}

// secondAddress is where the emulator has health and management.
func (l *loader) secondAddress() string {
	if l.httpPort == "" {
		return developmentHTTP
	}
	host, _, _ := net.SplitHostPort(developmentHTTP)
	return net.JoinHostPort(host, l.httpPort)
}

// entityFile reads what the settings name as entity file, nil when there is none. An inline one counts as part of the
// environment: a flag wins over it, and it over the config file.
func (l *loader) entityFile() (*entityFile, error) {
	file, where := l.settings.Entities.File, l.origin["entities"]
	w, _ := word("entities")
	switch {
	case l.inline.content == "" || where == "--"+w.Flag():
		if file == "" {
			return nil, nil
		}
		return readEntities(file)
	case where == w.Variable() || where == w.alias:
		return nil, Problems{{Where: l.inline.variable, Text: "given together with " + where + "; one of them is enough"}}
	}
	l.settings.Entities.File = ""
	return parseEntities(l.inline.variable, []byte(l.inline.content), nil)
}
