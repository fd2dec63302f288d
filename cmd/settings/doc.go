// Package settings reads the settings of a broker: one struct per concern, one YAML file, and flags
// and environment variables with the same names (docs/decisions/0091). It opens no socket and no
// log. It knows no rule of the broker beyond the ranges of an entity's properties.
//
// [Load] merges, in this order of precedence: flags, environment, file, defaults. It reports all
// problems at once, each with the place that the value came from:
//
//	s, err := settings.Load(settings.Sources{Flags: map[string][]string{"data": {"/srv/bus"}}, Env: os.LookupEnv})
//
// [ReadEntities] reads the entity file of the Service Bus emulator (Config.json), or the same in
// YAML. It reports every mistake with path and line number, and the emulator's defaults that are
// used. [WriteEntities] writes such a file, and [Diff] compares two lists of entities.
// [ParseDuration] reads ISO 8601 durations as Service Bus does.
//
// A [Secret] prints as *** in every format.
package settings
