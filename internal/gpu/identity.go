package gpu

import (
	"slices"
	"strings"
	"unicode"
)

// Identity removes spaces and control characters around s. It returns an empty string if s is a placeholder. Drivers
// and firmware fill unknown serial numbers with words ("N/A", "To Be Filled By O.E.M."), templates, counting digits,
// zeros or 0xff bytes. If placeholders counted as serial numbers, all boards with the same placeholder would be merged
// into one board.
func Identity(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
	if placeholder(strings.ToLower(s)) {
		return ""
	}
	return s
}

func placeholder(s string) bool {
	if strings.Trim(s, "0-._*x \ufffd") == "" { // zeros, dashes and dots, including 0x0000; a 0xff byte is decoded as \ufffd
		return true
	}
	if slices.Contains(kitUUIDs, s) || template(s) || onlyWords(s) {
		return true
	}
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune("-._:/ ", r) {
			return -1
		}
		return r
	}, s)
	return repeats(plain) || counts(plain) || counts(strings.TrimLeft(plain, "abcdefghijklmnopqrstuvwxyz"))
}

// kitUUIDs contains the example UUIDs in firmware development kits.
var kitUUIDs = []string{"03000200-0400-0500-0006-000700080009", "12345678-1234-5678-90ab-cddeefaabbcc"}

var brackets = [][2]string{{"(", ")"}, {"$(", ")"}, {"${", "}"}, {"<", ">"}, {"[", "]"}, {"%", "%"}}

// template reports whether s is a placeholder in brackets, such as $(DEFAULT_STRING), <<<NULL>>> or (none). It uses no
// regular expressions, because they allocate memory and each scrape checks every identity.
func template(s string) bool {
	return slices.ContainsFunc(brackets, func(b [2]string) bool {
		return len(s) >= len(b[0])+len(b[1]) && strings.HasPrefix(s, b[0]) && strings.HasSuffix(s, b[1])
	})
}

// typeNumber reports whether s is the name and number of an SMBIOS type, such as Type2 in "Type2 -
// Board Serial Number".
func typeNumber(s string) bool {
	number, found := strings.CutPrefix(s, "type")
	return found && (len(number) == 1 || len(number) == 2) && strings.Trim(number, "0123456789") == ""
}

// words contains the words that occur in placeholders: names of fields, and phrases for a missing value. It includes
// the letters of N/A and O.E.M.
var words = setOf(strings.Fields(`
	n a o e m na oem no not none null nil unknown unspecified undefined invalid empty default tbd
	to be filled by set specified applicable available provided present settable supported
	manufacturer vendor system board base baseboard chassis enclosure product
	serial number num sn name version asset tag string information info error part family sku uuid`))

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

func onlyWords(s string) bool {
	found := false
	for word := range strings.FieldsFuncSeq(s, separates) {
		if !words[word] && !typeNumber(word) {
			return false
		}
		found = true
	}
	return found
}

func separates(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

func repeats(s string) bool {
	return len(s) >= 6 && strings.Trim(s, s[:1]) == "" || len(s) >= 8 && s[2:] == s[:len(s)-2]
}

// counts reports whether the digits of s count upwards, as in 0123456789ABCDEF. A 0 may follow a 9, as in
// 1234567890123.
func counts(s string) bool {
	if len(s) < 8 {
		return false
	}
	for i := range len(s) - 1 {
		a, b := s[i], s[i+1]
		if b != a+1 && (a != '9' || b != '0' && b != 'a') && (a != 'f' || b != '0') {
			return false
		}
	}
	return true
}
