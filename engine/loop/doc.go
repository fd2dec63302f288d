// Package loop is what runs the rules of one partition.
package loop
