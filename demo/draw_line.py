"""Draws demo/line.png, the picture that ./dev demo reads: one line of text on a shaded, slightly tilted slip of paper."""
import pathlib

from PIL import Image, ImageDraw, ImageFont

TEXT = "Forethought reads this line 2026"


def draw() -> Image.Image:
    font = ImageFont.load_default(size=40)  # comes with Pillow
    left, top, right, bottom = font.getbbox(TEXT)
    width, height = right - left + 60, bottom - top + 44
    paper = Image.new("RGB", (width, height))
    ink = ImageDraw.Draw(paper)
    for x in range(width):  # the light falls from the left
        shade = x / width
        ink.line([(x, 0), (x, height)], fill=(int(250 - 45 * shade), int(244 - 50 * shade), int(228 - 60 * shade)))
    ink.text((30 - left, 20 - top), TEXT, font=font, fill=(28, 36, 84))
    return paper.rotate(0.6, resample=Image.Resampling.BICUBIC, fillcolor=(232, 226, 210))


if __name__ == "__main__":
    draw().save(pathlib.Path(__file__).with_name("line.png"), optimize=True)
