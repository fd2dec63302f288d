package quantity

import "time"

// DurationFlag is a duration as the value of a command's flag; it implements [flag.Value].
type DurationFlag struct {
	Value time.Duration // the default, or the value of the flag
	Takes Durations
}

// Set reads the text of the flag.
func (f *DurationFlag) Set(text string) (err error) {
	d, err := f.Takes.Parse(text)
	if err == nil {
		f.Value = d
	}
	return err
}

// String prints the value.
func (f *DurationFlag) String() string { return FormatDuration(f.Value) }

// SizeFlag is a size as the value of a command's flag; it implements [flag.Value].
type SizeFlag struct {
	Value int64 // the default, or the value of the flag
	Takes Sizes
}

// Set reads the text of the flag.
func (f *SizeFlag) Set(text string) (err error) {
	n, err := f.Takes.Parse(text)
	if err == nil {
		f.Value = n
	}
	return err
}

// String prints the value.
func (f *SizeFlag) String() string { return FormatSize(f.Value) }
