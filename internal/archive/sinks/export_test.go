package sinks

import "flag"

func OptionsOf(text string, fs *flag.FlagSet) (*Options, error) {
	_, o, _, err := parse("--to", text, fs)
	return o, err
}
