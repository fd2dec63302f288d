// Package settings is what a person can decide about a broker: one struct per concern, one YAML
// file, and flags and environment variables that use the same words. It opens no socket and no log;
// it knows no rule of the broker beyond the ranges of an entity's properties.
//
// [Load] merges, in this order of precedence: flags, environment, file, defaults. Every problem is
// found in one place, and all of them are reported at once, each with where the value came from:
//
//	s, err := settings.Load(settings.Sources{Flags: map[string][]string{"data": {"/srv/bus"}}, Env: os.LookupEnv})
//
// [ReadEntities] reads the entity file of the Service Bus emulator (Config.json), or the same in
// YAML, and says with path and line number everything that is wrong in it, and which of the
// emulator's defaults are used; [WriteEntities] writes one, and [Diff] says what has to be done to
// make of some entities others. [ParseDuration] reads ISO 8601 durations as Service Bus does.
//
// A [Secret] prints as *** wherever it is printed.
package settings
