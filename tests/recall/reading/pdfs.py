"""PDFs written by hand, so that what is in them is known to the byte."""

from __future__ import annotations

from io import BytesIO

from pypdf import PdfReader, PdfWriter


def pdf(*pages: str, title: str = "") -> bytes:
    """A PDF with a line of text for each line of each page."""
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids = []
    for page in pages:
        shown = "".join(f"({line}) Tj T* " for line in page.split("\n")) if page else ""
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown}ET".encode()
        bodies.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        bodies.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R >> >> >>" % len(bodies)
        )
        kids.append(b"%d 0 R" % len(bodies))
    bodies[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    bodies.append(b"<< /Title (%s) >>" % title.encode())
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(bodies) + 1
    tail = b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + tail % (size, size - 1, len(out))


def encrypted(data: bytes, password: str) -> bytes:
    """The same PDF with a password."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(data)))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()
