# Adds pith from an archive of its sources, by CPM, which the project has included. Set PITH_ARCHIVE to the path or address
# of the archive, and PITH_ARCHIVE_SHA256 to its SHA-256.
CPMAddPackage(NAME pith VERSION 0.1.0 URL ${PITH_ARCHIVE} URL_HASH SHA256=${PITH_ARCHIVE_SHA256})
