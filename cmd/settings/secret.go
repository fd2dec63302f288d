package settings

import (
	"fmt"
	"io"
	"log/slog"
)

const hidden = "***"

// Secret is a key. It prints as *** in every formatter, in JSON, in YAML and in slog;
// [Secret.Reveal] returns the value.
type Secret struct{ value string }

// NewSecret wraps a key.
func NewSecret(value string) Secret { return Secret{value: value} }

// Reveal returns the key itself: for computing signatures, never for printing.
func (s Secret) Reveal() string { return s.value }

// IsZero reports whether there is no key.
func (s Secret) IsZero() bool { return s.value == "" }

// Format implements [fmt.Formatter], so that no verb shows the key.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// String implements [fmt.Stringer].
func (s Secret) String() string { return hidden }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the key in JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalYAML hides the key in YAML.
func (s Secret) MarshalYAML() (any, error) { return hidden, nil }
