package table

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxCluster limits the escaped name of a cluster, in bytes. File systems must accept "cluster=" and this name as the
// name of a folder. ASCII letters, digits and "$-_.+!*'(),&=:@" are not escaped. Any other character becomes three
// bytes or more.
const maxCluster = 200

// CheckCluster returns an error if a sink cannot store the name. Names come from the store, from senders of events, and
// from the command line.
func CheckCluster(name string) error {
	switch escaped := url.PathEscape(name); {
	case name == "":
		return errors.New("the name of the cluster is empty")
	case !utf8.ValidString(name):
		return fmt.Errorf("the name of the cluster %.50q must be valid UTF-8: change the external label", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the name of the cluster %.50q must have no control characters: change the external label", name)
	case len(escaped) > maxCluster:
		return fmt.Errorf("the name of the cluster %.50q… must have at most %d bytes when escaped for a path, not %d: change the external label", name, maxCluster, len(escaped))
	}
	return nil
}
